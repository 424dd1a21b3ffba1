import AppStore

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

  /// Limits the fault to the next requests.
  public func next(_ requests: Int) -> ServerFault {
    var fault = self
    fault.requests = requests
    return fault
  }
}

extension [ServerFault] {
  /// Takes the first fault that applies to a request.
  mutating func take(for endpoint: ServerEndpoint) -> ServerFault? {
    guard let index = firstIndex(where: { $0.endpoint ?? endpoint == endpoint }) else { return nil }
    let fault = self[index]
    if let requests = fault.requests {
      self[index].requests = requests - 1
      if requests <= 1 { remove(at: index) }
    }
    return fault
  }
}
