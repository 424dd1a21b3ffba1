import HTTPTypes
import Synchronization

/// A request's line and header section: checked, and taken apart as far as framing and routing need it.
///
/// The bytes are kept and the rest is made from them on demand, since most handlers look at two or three of
/// the ten fields that a client sends. An object, because it is handed from the decoder to the connection and
/// on to the request.
final class RequestHead: Sendable {
  let method: HTTPRequest.Method
  let version: HTTPVersion
  let framing: BodyFraming
  /// Whether the client holds its body back until it is told to continue.
  let expectsContinue: Bool
  /// Whether the client is ready to send another request after this one.
  let wantsKeepAlive: Bool
  /// From the request line to the last field, with each line's end.
  let bytes: [UInt8]
  private let places: Places
  private let madeFields: Mutex<HTTPFields?>

  /// Where the parts are in the bytes.
  struct Places {
    /// Empty for the root of an absolute-form target that ends with its host.
    var path = 0..<0
    /// Without the question mark.
    var query: Range<Int>?
    /// From the target or `Host`.
    var authority: Range<Int>?
    /// The client's own `X-Request-ID`, if it is fit to be used.
    var givenID: Range<Int>?
    /// `traceparent`, well-formed or not, if it is there once.
    var traceparent: Range<Int>?
    /// `Content-Type`, if it is there once.
    var contentType: Range<Int>?
    /// All lines after the first.
    var fields = 0..<0
  }

  /// A head that was decoded.
  init(
    method: HTTPRequest.Method, version: HTTPVersion, framing: BodyFraming, expectsContinue: Bool,
    wantsKeepAlive: Bool, bytes: [UInt8], places: Places
  ) {
    self.method = method
    self.version = version
    self.framing = framing
    self.expectsContinue = expectsContinue
    self.wantsKeepAlive = wantsKeepAlive
    self.bytes = bytes
    self.places = places
    madeFields = Mutex(nil)
  }

  /// A head made by hand, for requests that did not come over a connection.
  init(method: HTTPRequest.Method, path: String, query: String, authority: String?, fields: HTTPFields) {
    self.method = method
    version = .http11
    framing = .none
    expectsContinue = false
    wantsKeepAlive = true
    var bytes = Array(path.utf8)
    var places = Places(path: 0..<bytes.count)
    bytes += query.utf8
    if !query.isEmpty { places.query = places.path.upperBound..<bytes.count }
    if let authority {
      let start = bytes.count
      bytes += authority.utf8
      places.authority = start..<bytes.count
    }
    self.bytes = bytes
    self.places = places
    madeFields = Mutex(fields)
  }

  /// The path as sent, not percent-decoded; `*` for all of the server.
  var path: String { places.path.isEmpty ? "/" : text(places.path) }

  /// Lets `body` look at the path's bytes.
  func withPath<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    let bytes = bytes
    return body(bytes.span.extracting(places.path))
  }

  /// The query as sent, without the question mark; nil if there is none.
  var query: String? { places.query.map(text) }

  /// The host and port that the client asked for; nil only in HTTP/1.0.
  var authority: String? { places.authority.map(text) }

  /// The client's own `X-Request-ID`, if it is fit to be used.
  var givenID: String? { places.givenID.map(text) }

  /// The trace that the client's `traceparent` names.
  func trace(using generator: inout some RandomNumberGenerator) -> TraceContext? {
    guard let place = places.traceparent else { return nil }
    let bytes = bytes
    return TraceContext(continuing: bytes.span.extracting(place), using: &generator)
  }

  /// Whether `Content-Type` says that the body is JSON.
  ///
  /// Looked up in the bytes, because most routes that take JSON ask for no other field, and none then has to be made.
  var announcesJSON: Bool {
    if let place = places.contentType {
      let bytes = bytes
      return MediaType.isJSON(bytes.span.extracting(place))
    }
    return fields[.contentType].map { MediaType.isJSON($0.utf8.span) } ?? false
  }

  /// The header section in its order; made when it is first asked for.
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
    var start = places.fields.lowerBound
    while start < places.fields.upperBound, let end = span.firstIndex(of: ASCII.lineFeed, from: start) {
      let line = span.extracting(start..<(end - 1))
      start = end + 1
      // Every line was found good when it was decoded.
      guard let field = try? FieldLine(parsing: line),
        let name = HTTPField.Name(copying: line.extracting(..<field.nameEnd))
      else { continue }
      let value = line.extracting(field.value)
      // Of bytes that are not ASCII the field keeps the bytes, which may be in any encoding.
      fields.append(
        field.isASCII
          ? HTTPField(name: name, value: String(copying: value))
          : value.withUnsafeBufferPointer { HTTPField(name: name, value: $0) })
    }
    return fields
  }
}

/// The two versions that are spoken.
enum HTTPVersion: Equatable {
  case http10
  case http11
}

/// How the end of a body is found (RFC 9112 §6.3).
enum BodyFraming: Equatable {
  case none
  /// `Content-Length`; never 0, which is ``none``.
  case length(Int)
  /// `Transfer-Encoding: chunked`.
  case chunked
}
