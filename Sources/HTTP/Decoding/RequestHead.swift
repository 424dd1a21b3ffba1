import HTTPTypes
import Synchronization

/// A validated request line and header section, parsed as far as framing and routing need it.
///
/// It keeps the bytes and makes the header fields on demand, because most handlers read two or three of the ten fields
/// that a client sends. It is a class, so that passing it from decoder to connection to request copies one reference.
final class RequestHead: Sendable {
  let method: HTTPRequest.Method
  let version: HTTPVersion
  let framing: BodyFraming
  /// Whether the client waits for `100 Continue` before it sends the body.
  let expectsContinue: Bool
  /// Whether the client may send another request on the connection.
  let wantsKeepAlive: Bool
  /// The bytes from the request line to the last field, with line ends.
  let bytes: [UInt8]
  private let ranges: Ranges
  private let madeFields: Mutex<HTTPFields?>

  /// The ranges of the parts in the bytes.
  struct Ranges {
    /// Empty for the root of an absolute-form target that ends with its host.
    var path = 0..<0
    /// The query without the question mark.
    var query: Range<Int>?
    /// The host and port from the target or `Host`.
    var authority: Range<Int>?
    /// The client's own `X-Request-ID`, if it is acceptable.
    var clientRequestID: Range<Int>?
    /// `traceparent`, well-formed or not, if there is exactly one.
    var traceparent: Range<Int>?
    /// `Content-Type`, if there is exactly one.
    var contentType: Range<Int>?
    /// All lines after the first.
    var fields = 0..<0
  }

  /// A decoded head.
  init(
    method: HTTPRequest.Method, version: HTTPVersion, framing: BodyFraming, expectsContinue: Bool,
    wantsKeepAlive: Bool, bytes: [UInt8], ranges: Ranges
  ) {
    self.method = method
    self.version = version
    self.framing = framing
    self.expectsContinue = expectsContinue
    self.wantsKeepAlive = wantsKeepAlive
    self.bytes = bytes
    self.ranges = ranges
    madeFields = Mutex(nil)
  }

  /// A head for a request that did not come over a connection.
  init(method: HTTPRequest.Method, path: String, query: String, authority: String?, fields: HTTPFields) {
    self.method = method
    version = .http11
    framing = .none
    expectsContinue = false
    wantsKeepAlive = true
    var bytes = Array(path.utf8)
    var ranges = Ranges(path: 0..<bytes.count)
    bytes += query.utf8
    if !query.isEmpty { ranges.query = ranges.path.upperBound..<bytes.count }
    if let authority {
      let start = bytes.count
      bytes += authority.utf8
      ranges.authority = start..<bytes.count
    }
    self.bytes = bytes
    self.ranges = ranges
    madeFields = Mutex(fields)
  }

  /// The path as sent, not percent-decoded; `*` for the whole server.
  var path: String { ranges.path.isEmpty ? "/" : text(ranges.path) }

  /// Calls `body` with the path's bytes.
  func withPath<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    let bytes = bytes
    return body(bytes.span.extracting(ranges.path))
  }

  /// The query as sent, without the question mark; nil if there is none.
  var query: String? { ranges.query.map(text) }

  /// The requested host and port; nil only in HTTP/1.0.
  var authority: String? { ranges.authority.map(text) }

  /// The client's own `X-Request-ID`, if it is acceptable.
  var clientRequestID: String? { ranges.clientRequestID.map(text) }

  /// The trace of the client's `traceparent`.
  func trace(using generator: inout some RandomNumberGenerator) -> TraceContext? {
    guard let place = ranges.traceparent else { return nil }
    let bytes = bytes
    return TraceContext(continuing: bytes.span.extracting(place), using: &generator)
  }

  /// Whether `Content-Type` says that the body is JSON.
  ///
  /// Read from the bytes, because most routes for JSON use no other header field.
  var announcesJSON: Bool {
    if let place = ranges.contentType {
      let bytes = bytes
      return MediaType.isJSON(bytes.span.extracting(place))
    }
    return fields[.contentType].map { MediaType.isJSON($0.utf8.span) } ?? false
  }

  /// The header fields in their order; made at the first use.
  var fields: HTTPFields {
    madeFields.withLock { made in
      if let made { return made }
      let fields = makeFields()
      made = fields
      return fields
    }
  }

  private func text(_ range: Range<Int>) -> String {
    String(decoding: bytes[range], as: UTF8.self)
  }

  private func makeFields() -> HTTPFields {
    var fields = HTTPFields()
    let bytes = bytes
    let span = bytes.span
    var start = ranges.fields.lowerBound
    while start < ranges.fields.upperBound, let end = span.firstIndex(of: ASCII.lineFeed, from: start) {
      let line = span.extracting(start..<(end - 1))
      start = end + 1
      // The decoder has validated every line.
      guard let field = try? FieldLine(parsing: line),
        let name = HTTPField.Name(copying: line.extracting(..<field.nameEnd))
      else { continue }
      let value = line.extracting(field.value)
      // A value that is not ASCII may be in any encoding, so the field keeps its bytes.
      fields.append(
        field.isASCII
          ? HTTPField(name: name, value: String(copying: value))
          : value.withUnsafeBufferPointer { HTTPField(name: name, value: $0) })
    }
    return fields
  }
}

/// The supported versions of HTTP.
enum HTTPVersion: Equatable {
  case http10
  case http11
}

/// How the length of a body is determined (RFC 9112 §6.3).
enum BodyFraming: Equatable {
  case none
  /// `Content-Length`; never 0, which is ``none``.
  case length(Int)
  /// `Transfer-Encoding: chunked`.
  case chunked
}

extension HTTPField.Name {
  /// The field name in these bytes. Common names are constants in their usual spelling, which saves two strings each.
  init?(copying bytes: Span<UInt8>) {
    switch bytes.count {
    case 4 where ASCII.isEqual(bytes, lowercase: "host"): self = .host
    case 6 where ASCII.isEqual(bytes, lowercase: "accept"): self = .accept
    case 10 where ASCII.isEqual(bytes, lowercase: "user-agent"): self = .userAgent
    case 10 where ASCII.isEqual(bytes, lowercase: "connection"): self = .connection
    case 12 where ASCII.isEqual(bytes, lowercase: "content-type"): self = .contentType
    case 13 where ASCII.isEqual(bytes, lowercase: "authorization"): self = .authorization
    case 14 where ASCII.isEqual(bytes, lowercase: "content-length"): self = .contentLength
    case 15 where ASCII.isEqual(bytes, lowercase: "accept-encoding"): self = .acceptEncoding
    case 15 where ASCII.isEqual(bytes, lowercase: "accept-language"): self = .acceptLanguage
    default: self.init(String(copying: bytes))
    }
  }

  /// swift-http-types has no constant for it, because it uses `:authority`.
  static let host = HTTPField.Name("Host") ?? .accept  // Never `accept`: "Host" is a token.
}
