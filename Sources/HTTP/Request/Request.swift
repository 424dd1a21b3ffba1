public import HTTPTypes
import Platform
public import Sockets

/// A complete request, with a body within the route's limit.
public struct Request: Sendable {
  private let parsed: RequestHead
  /// The decoded query.
  public let query: Query
  /// The values of the route pattern's `{name}` segments.
  public let parameters: PathParameters
  /// The body without its transfer coding.
  public let body: [UInt8]
  /// The address of the other end of the connection, which may be a proxy; see ``clientAddress``.
  public internal(set) var remoteAddress: SocketAddress
  /// The client's address: that of the other end of the connection, or the one that a trusted proxy names. Rate
  /// limiters and logs use it.
  public let clientAddress: IPAddress
  /// The pattern of the route that matched, such as `/api/v1/profiles/{userID}/premium`.
  public let routePattern: String
  /// See ``id``.
  let requestID: RequestID

  /// The method, as sent.
  public var method: HTTPRequest.Method { parsed.method }

  /// The path of the target as sent: not percent-decoded, without the query.
  public var path: String { parsed.path }

  /// The requested host, from an absolute-form target or `Host`; nil only in HTTP/1.0.
  public var authority: String? { parsed.authority }

  /// The header fields in their order; made at the first use.
  public var headers: HTTPFields { parsed.fields }

  /// Whether `Content-Type` says that the body is JSON.
  var announcesJSON: Bool { parsed.announcesJSON }

  /// The request's identifier in logs and in the response's `X-Request-ID`: the client's own `X-Request-ID` if it is 1
  /// to 128 characters of `[A-Za-z0-9._-]`, else 32 random hexadecimal digits.
  public var id: String { requestID.description }

  /// A request that did not come over a connection, for tests and for calls within the process.
  public init(
    method: HTTPRequest.Method, path: String, query: Query = Query(), authority: String? = nil,
    headers: HTTPFields = HTTPFields(), parameters: PathParameters = PathParameters(), body: [UInt8] = [],
    remoteAddress: SocketAddress = SocketAddress(host: "127.0.0.1", port: 0),
    clientAddress: IPAddress? = nil, routePattern: String = "", id: String = "test"
  ) {
    self.init(
      head: RequestHead(
        method: method, path: path, query: query.raw, authority: authority, fields: headers), query: query,
      parameters: parameters, body: body, remoteAddress: remoteAddress,
      clientAddress: clientAddress ?? IPAddress(remoteAddress), routePattern: routePattern,
      requestID: .client(id))
  }

  init(
    head: RequestHead, query: Query, parameters: PathParameters, body: [UInt8],
    remoteAddress: SocketAddress, clientAddress: IPAddress, routePattern: String, requestID: RequestID
  ) {
    parsed = head
    self.query = query
    self.parameters = parameters
    self.body = body
    self.remoteAddress = remoteAddress
    self.clientAddress = clientAddress
    self.routePattern = routePattern
    self.requestID = requestID
  }
}

/// The identifier of a request in logs and responses.
///
/// A generated one is two integers until its text is needed, which is rare.
enum RequestID: Sendable, Hashable {
  case client(String)
  case generated(UInt64, UInt64)

  /// A new identifier. It need not be secret, so any generator is acceptable.
  static func generate(using generator: inout some RandomNumberGenerator) -> RequestID {
    .generated(generator.next(), generator.next())
  }

  /// Whether a client's own `X-Request-ID` may be logged and echoed.
  static func isAcceptable(_ value: Span<UInt8>) -> Bool {
    guard (1...128).contains(value.count) else { return false }
    for index in value.indices {
      switch value[index] {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        continue
      default:
        return false
      }
    }
    return true
  }

  /// Appends the text of the identifier.
  func write(to output: inout [UInt8]) {
    switch self {
    case .client(let text):
      output.append(contentsOf: text.utf8)
    case .generated(let high, let low):
      Self.writeHex(high, to: &output)
      Self.writeHex(low, to: &output)
    }
  }

  private static func writeHex(_ value: UInt64, to output: inout [UInt8]) {
    let digits = (
      hexDigits(of: UInt32(truncatingIfNeeded: value >> 32)).bigEndian,
      hexDigits(of: UInt32(truncatingIfNeeded: value)).bigEndian
    )
    withUnsafeBytes(of: digits) { output.append(contentsOf: $0) }
  }

  /// Eight hexadecimal digits, computed together.
  static func hexDigits(of value: UInt32) -> UInt64 {
    // Each group of four bits gets a byte of its own.
    var digits = UInt64(value)
    digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF
    digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF
    digits = (digits | digits << 4) & 0x0F0F_0F0F_0F0F_0F0F
    // A byte of 10 or more reaches 16 when 6 is added. The distance from "9" + 1 to "a" is 39.
    let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
    return digits + 0x3030_3030_3030_3030 + letters * 39
  }
}

extension RequestID: CustomStringConvertible {
  var description: String {
    if case .client(let text) = self { return text }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(32)
    write(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }
}
