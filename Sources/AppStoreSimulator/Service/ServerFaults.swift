import AppStore

/// What the App Store Server API does wrong.
public struct ServerFault: Codable, Hashable, Sendable {
  /// What happens in place of the answer, or to it.
  public enum Kind: String, Codable, CaseIterable, Sendable {
    /// Apple's error of that ``ServerFault/code``.
    case error
    /// 401 without JSON, as Apple answers for an app that was never released.
    case unauthorized
    /// The right answer, ``ServerFault/delay`` seconds late.
    case slow
    /// The connection is closed without an answer.
    case close
    /// The connection is closed in the middle of the body.
    case cut
  }

  /// What happens.
  public var fault: Kind
  /// The code of an ``Kind/error``: the first three digits are the status.
  public var code: AppStoreErrorCode?
  /// Of code 4290000: in how many seconds of the store's time `Retry-After` ends.
  public var retryAfter: Double?
  /// Of ``Kind/slow``: how many real seconds.
  public var delay: Double?
  /// Where; nil for every endpoint.
  public var endpoint: ServerEndpoint?
  /// Production or sandbox; nil for both.
  public var environment: Environment?
  /// To how many requests; nil for all until the fault is cleared.
  public var requests: Int?
  /// How likely, 0 to 1; nil for always.
  public var probability: Double?

  private init(_ fault: Kind) { self.fault = fault }

  /// Apple's error of that code.
  public static func error(_ code: AppStoreErrorCode) -> ServerFault {
    var fault = ServerFault(.error)
    fault.code = code
    return fault
  }

  /// 429 with `Retry-After` so many seconds ahead.
  public static func rateLimit(retryAfter seconds: Double) -> ServerFault {
    var fault = error(.rateLimitExceeded)
    fault.retryAfter = seconds
    return fault
  }

  /// The right answer, so many real seconds late.
  public static func slow(_ seconds: Double) -> ServerFault {
    var fault = ServerFault(.slow)
    fault.delay = seconds
    return fault
  }

  /// 401 without JSON.
  public static let unauthorized = ServerFault(.unauthorized)
  /// The connection is closed without an answer.
  public static let close = ServerFault(.close)
  /// The connection is closed in the middle of the body.
  public static let cut = ServerFault(.cut)

  /// The same at one endpoint only.
  public func at(_ endpoint: ServerEndpoint) -> ServerFault {
    var fault = self
    fault.endpoint = endpoint
    return fault
  }

  /// The same for the next requests only.
  public func next(_ requests: Int) -> ServerFault {
    var fault = self
    fault.requests = requests
    return fault
  }
}

/// The faults of the API that are in force, as a value.
struct ServerFaults: Sendable {
  private(set) var all: [ServerFault] = []
  private var random: SplitMix64

  init(seed: UInt64) {
    random = SplitMix64(state: seed)
  }

  mutating func add(_ fault: ServerFault) { all.append(fault) }

  mutating func clear() { all = [] }

  /// The fault that befalls a request: the first that fits.
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
