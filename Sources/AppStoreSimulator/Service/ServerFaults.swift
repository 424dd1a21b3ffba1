import AppStore
import Platform

/// A fault of the App Store Server API.
public struct ServerFault: Codable, Hashable, Sendable {
  /// The kinds of faults.
  public enum Kind: String, Codable, CaseIterable, Sendable {
    /// Apple's error with the ``ServerFault/code``.
    case error
    /// 401 without JSON, Apple's response for an app that was never released.
    case unauthorized
    /// The right response, ``ServerFault/delay`` seconds late.
    case slow
    /// The connection is closed without a response.
    case close
    /// The connection is closed in the middle of the body.
    case cut
  }

  /// The kind of fault.
  public var fault: Kind
  /// For ``Kind/error``: the code; its first three digits are the status.
  public var code: AppStoreErrorCode?
  /// For code 4290000: the distance of `Retry-After` in seconds of the store's time.
  public var retryAfter: Double?
  /// For ``Kind/slow``: the delay in real seconds.
  public var delay: Double?
  /// The endpoint; nil for all.
  public var endpoint: ServerEndpoint?
  /// The environment; nil for both.
  public var environment: Environment?
  /// The number of requests; nil for all until the fault is cleared.
  public var requests: Int?
  /// The probability, 0 to 1; nil for always.
  public var probability: Double?

  private init(_ fault: Kind) { self.fault = fault }

  /// Makes an error with Apple's code.
  public static func error(_ code: AppStoreErrorCode) -> ServerFault {
    var fault = ServerFault(.error)
    fault.code = code
    return fault
  }

  /// Makes a 429 with `Retry-After` so many seconds ahead.
  public static func rateLimit(retryAfter seconds: Double) -> ServerFault {
    var fault = error(.rateLimitExceeded)
    fault.retryAfter = seconds
    return fault
  }

  /// Makes a delay in real seconds.
  public static func slow(_ seconds: Double) -> ServerFault {
    var fault = ServerFault(.slow)
    fault.delay = seconds
    return fault
  }

  /// 401 without JSON.
  public static let unauthorized = ServerFault(.unauthorized)
  /// The connection is closed without a response.
  public static let close = ServerFault(.close)
  /// The connection is closed in the middle of the body.
  public static let cut = ServerFault(.cut)

  /// Limits the fault to one endpoint.
  public func at(_ endpoint: ServerEndpoint) -> ServerFault {
    var fault = self
    fault.endpoint = endpoint
    return fault
  }

  /// Limits the fault to the next requests.
  public func next(_ requests: Int) -> ServerFault {
    var fault = self
    fault.requests = requests
    return fault
  }
}

/// The active faults of the API, as a value.
struct ServerFaults: Sendable {
  private(set) var all: [ServerFault] = []
  private var random: SplitMix64

  init(seed: UInt64) {
    random = SplitMix64(state: seed)
  }

  mutating func add(_ fault: ServerFault) { all.append(fault) }

  mutating func clear() { all = [] }

  /// Takes the first fault that applies to a request.
  mutating func take(for endpoint: ServerEndpoint, in environment: Environment) -> ServerFault? {
    for index in all.indices {
      let fault = all[index]
      guard fault.endpoint ?? endpoint == endpoint, fault.environment ?? environment == environment,
        happens(fault.probability)
      else { continue }
      if let requests = fault.requests {
        all[index].requests = requests - 1
        if requests <= 1 { all.remove(at: index) }
      }
      return fault
    }
    return nil
  }

  private mutating func happens(_ probability: Double?) -> Bool {
    guard let probability else { return true }
    return Double.random(in: 0..<1, using: &random) < probability
  }
}
