/// What came of one request to the App Store Server API, for whoever counts.
public struct StoreCallReport: Sendable {
  /// The closed list of what can come of a request. The raw values are fit for metrics.
  public enum Outcome: String, Sendable, CaseIterable {
    /// It was answered with what was asked for.
    case ok
    /// It was answered that there is no such thing.
    case notFound = "not_found"
    /// It was refused for another reason of the request's (4xx).
    case rejected
    /// The key, its id or the issuer was not taken (401).
    case unauthorized
    /// The store asked for a rest (429).
    case rateLimited = "rate_limited"
    /// The store failed (5xx), or its answer cannot be read.
    case failed
    /// No answer came.
    case unreachable
    /// Whoever asked went away.
    case cancelled
    /// No request was made: the store's rate leaves no room.
    case noRoom = "no_room"
    /// No request was made: the store is left alone because it did not answer.
    case circuitOpen = "circuit_open"
    /// No request was made: it cannot be put together or signed.
    case unsendable
  }

  /// Which endpoint was asked; one of a closed list.
  public var endpoint: String
  /// Which of the store's two servers was asked.
  public var environment: Environment
  /// What came of it.
  public var outcome: Outcome
  /// How long the answer took; nil if no request was made.
  public var duration: Duration?

  init(_ endpoint: Endpoint, _ environment: Environment, _ answer: ServerAnswer, duration: Duration?) {
    self.endpoint = "\(endpoint)"
    self.environment = environment
    self.duration = duration
    switch answer {
    case .success: outcome = .ok
    case .failure(let error): outcome = Outcome(error)
    }
  }
}

extension StoreCallReport.Outcome {
  init(_ error: AppStoreServerError) {
    self =
      switch error {
      case .rejected(let rejection):
        switch rejection.status {
        case 401: .unauthorized
        case 404: .notFound
        case 429: .rateLimited
        case 400..<500: .rejected
        default: .failed
        }
      case .unauthorizedWithoutJSON: .unauthorized
      case .transactionNotFound: .notFound
      case .transport(let cause): cause is CancellationError ? .cancelled : .unreachable
      case .undecodableAnswer: .failed
      case .overloaded: .noRoom
      case .circuitOpen: .circuitOpen
      case .invalidArgument, .tokenNotSigned: .unsendable
      }
  }
}

extension ServerAnswer {
  /// Whether no request was made.
  var isRefusal: Bool {
    switch self {
    case .failure(.overloaded), .failure(.circuitOpen): true
    default: false
    }
  }
}
