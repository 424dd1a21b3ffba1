import HTTPTypes

/// Sends one HTTP request and returns the whole response.
///
/// The App Store Server API depends on this protocol instead of an HTTP client, so tests need no network.
public protocol HTTPTransport: Sendable {
  /// Sends a request.
  ///
  /// - Parameters:
  ///   - request: with scheme, authority and path.
  ///   - body: nil for none.
  ///   - timeout: from connecting to the last byte of the response.
  /// - Returns: the response, with any status.
  /// - Throws: if no whole response arrives: connection failed, timeout, or too long.
  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8])
}
