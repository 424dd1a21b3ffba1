import HTTPTypes

/// Sends one HTTP request and gives the whole answer.
///
/// The App Store Server API speaks through this, so that it depends on no HTTP client and is tested without
/// a network.
public protocol HTTPTransport: Sendable {
  /// Sends a request.
  ///
  /// - Parameters:
  ///   - request: with scheme, authority and path.
  ///   - body: nil for none.
  ///   - timeout: for everything from connecting to the answer's last byte.
  /// - Returns: the answer, whatever its status.
  /// - Throws: if there is none: no connection, cut off, too late, too long.
  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8])
}
