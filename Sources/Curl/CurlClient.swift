import CLibcurl
public import HTTPTypes
import Synchronization

/// The limits and TLS settings of a ``CurlClient``.
public struct CurlConfiguration: Sendable {
  /// The limit of concurrent requests.
  public var maximumInFlight = 64
  /// The limit of queued requests; the next one gets `.busy`.
  public var maximumQueued = 1024
  /// The limit of concurrent requests to one host, and so of connections to it. It does not hold while requests run to a
  /// host whose last response came by HTTP/2, where they share connections.
  public var maximumConnectionsPerHost = 8
  /// The `User-Agent` field; empty for none.
  public var userAgent: String
  /// A PEM file of trusted roots that replaces the system's; for tests and private gateways.
  public var certificateAuthorities: String?
  /// Whether the client connects to public addresses only; for untrusted URLs. The resolved address is checked when its
  /// socket is opened, which prevents DNS rebinding. No proxy is used then, because a proxy would not check the
  /// address.
  public var refusesPrivateAddresses = false

  /// The defaults.
  public init(userAgent: String = "") {
    self.userAgent = userAgent
  }
}

/// An HTTP client over libcurl's multi interface. It uses HTTP/2 if the server supports it, reuses connections, always
/// verifies certificates, and never follows redirects.
///
/// One thread of its own runs all transfers.
public final class CurlClient: Sendable {
  private let loop: TransferLoop
  private let nextID = Atomic<UInt64>(0)

  /// A client without connections. Its thread ends when the client is released.
  public init(configuration: CurlConfiguration = CurlConfiguration()) {
    loop = TransferLoop(configuration: configuration)
  }

  deinit { loop.shutDown() }

  /// Sends a request and waits for its complete response. No status is an error.
  nonisolated(nonsending) public func send(_ request: CurlRequest) async throws(CurlError) -> CurlResponse {
    let id = nextID.add(1, ordering: .relaxed).newValue
    let flag = CancellationFlag()
    let result: Result<CurlResponse, CurlError> = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        loop.submit(
          Transfer(id: id, request: request, isCancelled: flag) { continuation.resume(returning: $0) })
      }
    } onCancel: {
      flag.raise()
      loop.cancel(id)
    }
    return try result.get()
  }

  /// Fails the current requests with `.shutDown` and closes all connections.
  public func shutDown() async {
    await withCheckedContinuation { continuation in
      loop.shutDown { continuation.resume() }
    }
  }
}

/// An HTTP request.
public struct CurlRequest: Sendable {
  /// The method.
  public var method: HTTPRequest.Method
  /// An absolute `http` or `https` URL.
  public var url: String
  /// The header fields, without those that libcurl writes (`Host`, `Content-Length`).
  public var headers: HTTPFields
  /// The body; nil for none.
  public var body: [UInt8]?
  /// The timeout from queueing to the last byte of the response.
  public var timeout: Duration
  /// The timeout for name resolution, connecting and the TLS handshake.
  public var connectTimeout: Duration
  /// The limit of the response body in bytes; a longer body is an error.
  public var maximumResponseLength: Int

  /// A request with these parts.
  public init(
    method: HTTPRequest.Method = .get, url: String, headers: HTTPFields = [:], body: [UInt8]? = nil,
    timeout: Duration = .seconds(10), connectTimeout: Duration = .seconds(3),
    maximumResponseLength: Int = 4 << 20
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
    self.timeout = timeout
    self.connectTimeout = connectTimeout
    self.maximumResponseLength = maximumResponseLength
  }
}

/// A complete HTTP response.
public struct CurlResponse: Sendable {
  /// The versions of HTTP.
  public enum Version: Sendable {
    /// HTTP/1.0
    case http10
    /// HTTP/1.1
    case http11
    /// HTTP/2
    case http2
    /// A version that libcurl may add.
    case other
  }

  /// The status code.
  public let status: Int
  /// The header fields of the final response, without those of interim responses and trailers.
  public let headers: HTTPFields
  /// The body without its transfer coding.
  public let body: [UInt8]
  /// The version of HTTP of the response.
  public let httpVersion: Version
}

/// The reason why a request has no complete response. It contains no header field, body or query of the request.
public enum CurlError: Error, Sendable, Equatable {
  /// The host was not found or refused the connection.
  case couldNotConnect(String)
  /// The request's timeout or connect timeout passed.
  case timedOut
  /// The response body is longer than the request allows.
  case tooLarge
  /// TLS failed, or the server's certificate is not trusted for its name.
  case tls(String)
  /// The task was cancelled.
  case cancelled
  /// The queue of requests is full.
  case busy
  /// The client was shut down.
  case shutDown
  /// The URL is not a well-formed `http` or `https` URL, or its host has a private address.
  case refused(String)
  /// Another error, with libcurl's code and text (`curl_easy_strerror`).
  case other(code: Int, String)
}

extension CurlError {
  /// The error for one of libcurl's codes (libcurl-errors(3)).
  init(_ code: CURLcode) {
    let text = String(cString: curl_easy_strerror(code))
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT:
      self = .couldNotConnect(text)
    case CURLE_OPERATION_TIMEDOUT:
      self = .timedOut
    case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
      CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR:
      self = .tls(text)
    case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL:
      self = .refused(text)
    default:
      self = .other(code: Int(code.rawValue), text)
    }
  }
}

extension CurlError {
  /// A message for operators. It contains no part of the request or its address.
  package var message: String {
    switch self {
    case .couldNotConnect(let message), .tls(let message), .refused(let message), .other(_, let message):
      message
    case .timedOut: "no response in time"
    case .tooLarge: "the response is too long"
    case .cancelled, .shutDown: "receiptd stopped"
    case .busy: "too many requests are waiting"
    }
  }
}
