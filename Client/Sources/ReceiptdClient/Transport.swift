public import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// An HTTP request.
public struct TransportRequest: Sendable, Hashable {
  /// The method, in capitals.
  public var method: String
  /// The address.
  public var url: URL
  /// The header fields.
  public var headers: [String: String]
  /// The body; `nil` for none.
  public var body: Data?

  /// Creates a request.
  public init(method: String, url: URL, headers: [String: String] = [:], body: Data? = nil) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
  }

  /// Whether two requests are the same.
  public static func == (a: Self, b: Self) -> Bool {
    a.method == b.method && a.url == b.url && a.headers == b.headers && isSame(a.body, b.body)
  }
}

/// An HTTP response.
public struct TransportResponse: Sendable, Hashable {
  /// The status code.
  public var status: Int
  /// The body.
  public var body: Data
  /// The header fields, with names in lower case.
  private var headers: [String: String]

  /// Creates a response.
  public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
    self.status = status
    self.body = body
    var lower: [String: String] = [:]
    for (name, value) in headers { lower[name.lowercased()] = value }
    self.headers = lower
  }

  /// Whether two responses are the same.
  public static func == (a: Self, b: Self) -> Bool {
    a.status == b.status && a.headers == b.headers && isSame(a.body, b.body)
  }

  /// A header field by its name in any case.
  public func header(_ name: String) -> String? { headers[name.lowercased()] }
}

/// Compares bytes. `==` of `Data` is inlined, and is three kilobytes.
private func isSame(_ a: Data?, _ b: Data?) -> Bool {
  a.map { NSData(data: $0) } == b.map { NSData(data: $0) }
}

/// Sends HTTP requests. A test replaces it.
public protocol Transport: Sendable {
  /// Sends a request and waits for the whole response.
  /// - Throws: any error if no whole response arrived.
  func send(_ request: TransportRequest) async throws -> TransportResponse
}

/// A transport over `URLSession`: nothing is cached, no cookies, 30 seconds for a request, and no redirects, because a redirect
/// to another host would take the access token along.
public final class URLSessionTransport: NSObject, Transport, URLSessionTaskDelegate {
  private let configuration: URLSessionConfiguration
  private let shared = Protected<URLSession?>(nil)

  /// Creates a transport.
  /// - Parameter timeout: the seconds for a whole request.
  public init(timeout: TimeInterval = 30) {
    configuration = URLSessionConfiguration.ephemeral
    configuration.timeoutIntervalForRequest = timeout
    configuration.timeoutIntervalForResource = timeout
    configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
    configuration.urlCache = nil
    configuration.httpShouldSetCookies = false
    configuration.httpCookieAcceptPolicy = .never
    super.init()
  }

  private var session: URLSession {
    shared.with { session in
      if let session { return session }
      let new = URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
      session = new
      return new
    }
  }

  /// Sends a request.
  public func send(_ request: TransportRequest) async throws -> TransportResponse {
    let (data, response) = try await session.data(for: Self.message(request))
    return try Self.response(response, data)
  }

  @inline(never) private static func message(_ request: TransportRequest) -> URLRequest {
    var message = URLRequest(url: request.url)
    message.httpMethod = request.method
    message.httpBody = request.body
    for (name, value) in request.headers { message.setValue(value, forHTTPHeaderField: name) }
    return message
  }

  @inline(never) private static func response(_ response: URLResponse, _ data: Data) throws
    -> TransportResponse
  {
    guard let response = response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
    var headers: [String: String] = [:]
    for (name, value) in response.allHeaderFields { headers["\(name)"] = "\(value)" }
    return TransportResponse(status: response.statusCode, headers: headers, body: data)
  }

  /// Follows no redirect.
  public func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
  ) { completionHandler(nil) }
}
