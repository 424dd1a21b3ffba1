import AppStore
import Platform

/// A fault of the App Store Server API.
public struct ServerFault: Codable, Hashable, Sendable {
  /// The kinds of faults.
  public enum Kind: String, Codable, Sendable {
    /// Apple's error with the ``ServerFault/code``.
    case error
    /// 401 without JSON, Apple's response for an app that was never released.
    case unauthorized
    /// The right response, ``ServerFault/delay`` seconds late.
    case slow
    /// The connection is closed without a response.
    case close
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

  /// Makes an error with Apple's code.
  public static func error(_ code: AppStoreErrorCode) -> ServerFault {
    ServerFault(fault: .error, code: code)
  }
  /// Makes a 429 with `Retry-After` so many seconds ahead.
  public static func rateLimit(retryAfter seconds: Double) -> ServerFault {
    ServerFault(fault: .error, code: .rateLimitExceeded, retryAfter: seconds)
  }
  /// Makes a delay in real seconds.
  public static func slow(_ seconds: Double) -> ServerFault { ServerFault(fault: .slow, delay: seconds) }
  /// 401 without JSON.
  public static let unauthorized = ServerFault(fault: .unauthorized)
  /// The connection is closed without a response.
  public static let close = ServerFault(fault: .close)

  /// Limits the fault to one endpoint.
  public func at(_ endpoint: ServerEndpoint) -> ServerFault {
    var fault = self
    fault.endpoint = endpoint
    return fault
  }

  /// Limits the fault to one environment.
  public func `in`(_ environment: Environment) -> ServerFault {
    var fault = self
    fault.environment = environment
    return fault
  }

  /// Limits the fault to the next requests.
  public func next(_ requests: Int) -> ServerFault {
    var fault = self
    fault.requests = requests
    return fault
  }
}

extension [ServerFault] {
  /// Takes the first fault that applies to a request.
  mutating func take(for endpoint: ServerEndpoint, in environment: Environment) -> ServerFault? {
    let index = firstIndex {
      $0.endpoint ?? endpoint == endpoint && $0.environment ?? environment == environment
    }
    guard let index else { return nil }
    let fault = self[index]
    if let requests = fault.requests {
      self[index].requests = requests - 1
      if requests <= 1 { remove(at: index) }
    }
    return fault
  }
}

/// The faults of notification delivery; none by default.
public struct DeliveryFaults: Codable, Hashable, Sendable {
  /// The probability that an attempt is lost, 0 to 1. The store records it as `TIMED_OUT`.
  public var loss: Double?
  /// The number of next attempts that are lost.
  public var lose: Int?
  /// The probability that a notification is sent twice, 0 to 1.
  public var duplicates: Double?
  /// The number of notifications that are held and then sent together, shuffled.
  public var reorder: Int?

  /// No faults.
  public init() {}
}

/// Decides as a value how each notification is delivered.
struct DeliveryPlan: Sendable {
  private(set) var faults = DeliveryFaults()
  private var random: SplitMix64
  private var held: [String] = []

  init(seed: UInt64) {
    random = SplitMix64(state: seed)
  }

  /// Replaces the faults.
  ///
  /// - Returns: the held notifications, shuffled, to be sent now.
  mutating func set(_ faults: DeliveryFaults) -> [String] {
    self.faults = faults
    return release()
  }

  /// - Returns: the notifications to be sent now: none while they are held, else this one or all held ones.
  mutating func admit(_ uuid: String) -> [String] {
    guard let count = faults.reorder else { return [uuid] }
    held.append(uuid)
    return held.count < count ? [] : release()
  }

  /// The number of times that one attempt arrives: 0 if it is lost.
  mutating func copies() -> Int {
    if let left = faults.lose, left > 0 {
      faults.lose = left - 1
      return 0
    }
    if happens(faults.loss) { return 0 }
    return happens(faults.duplicates) ? 2 : 1
  }

  private mutating func release() -> [String] {
    let released = held.shuffled(using: &random)
    held = []
    return released
  }

  private mutating func happens(_ probability: Double?) -> Bool {
    // Draws only for a set probability, so that faults without one do not change the sequence.
    guard let probability else { return false }
    return Double.random(in: 0..<1, using: &random) < probability
  }
}
