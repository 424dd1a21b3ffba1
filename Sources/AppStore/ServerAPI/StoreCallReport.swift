/// The outcome of one request to the App Store Server API, for metrics.
public struct StoreCallReport: Sendable {
  /// The closed list of outcomes. The raw values are label values of metrics.
  public enum Outcome: String, Sendable, CaseIterable {
    /// The store returned the requested data.
    case ok
    /// The store does not know the requested object.
    case notFound = "not_found"
    /// The store refused the request for another reason (4xx).
    case rejected
    /// The store refused the key, its id or the issuer (401).
    case unauthorized
    /// The rate limit was exceeded (429).
    case rateLimited = "rate_limited"
    /// The store failed (5xx), or its response cannot be read.
    case failed
    /// No response arrived.
    case unreachable
    /// The caller was cancelled.
    case cancelled
    /// No request was sent: the rate limit leaves no permit in time.
    case noRoom = "no_room"
    /// No request was sent: the circuit is open.
    case circuitOpen = "circuit_open"
    /// No request was sent: its arguments or its token are invalid.
    case unsendable
  }

  /// The endpoint; one of a closed list.
  public var endpoint: String
  /// The environment whose server was called.
  public var environment: Environment
  /// The outcome.
  public var outcome: Outcome
  /// The response time; nil if no request was sent.
  public var duration: Duration?

  init(_ endpoint: Endpoint, _ environment: Environment, _ result: ServerResult, duration: Duration?) {
    self.endpoint = "\(endpoint)"
    self.environment = environment
    self.duration = duration
    switch result {
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
      case .unauthorizedWithoutJSON, .answeredBySandboxAlone: .unauthorized
      case .transactionNotFound: .notFound
      case .transport(let cause): cause is CancellationError ? .cancelled : .unreachable
      case .undecodableAnswer: .failed
      case .overloaded: .noRoom
      case .circuitOpen: .circuitOpen
      case .invalidArgument, .tokenNotSigned: .unsendable
      }
  }
}

extension ServerResult {
  /// Whether the client refused the call without a request.
  var isRefusal: Bool {
    switch self {
    case .failure(.overloaded), .failure(.circuitOpen): true
    default: false
    }
  }
}
