import FuzzSupport
import HTTPTypes

@testable import HTTP

/// Runs the head decoder, the body decoders and the connection state together.
enum ConnectionTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    let whole = Transcript(of: [bytes])
    for pieces in [Pieces.some(of: bytes), Pieces.single(bytes)] {
      claim(
        Transcript(of: pieces).eventsBesidesContinue == whole.eventsBesidesContinue,
        "the pieces in which bytes arrive do not change what is understood")
    }
    checkAnswers(of: whole)
    for received in whole.requests {
      checkFraming(of: received)
      checkRoundTrip(of: received)
      checkUses(of: received.head)
    }
  }

  /// Each request gets one response, and no response follows one that closes.
  private static func checkAnswers(of transcript: Transcript) {
    let refusals = transcript.events.filter { if case .refused = $0 { true } else { false } }.count
    claim(refusals <= 1, "a refusal is the end")
    claim(transcript.answers.count == transcript.requests.count + refusals, "one answer for each")
    claim(transcript.answers.dropLast().allSatisfy { !$0.closes }, "nothing follows an answer that closes")
    if refusals == 1 { claim(transcript.answers.last?.closes == true, "a refusal closes") }
    claim(
      transcript.requests.count <= Transcript.limits.requestsPerConnection, "requests on a connection")
  }

  /// The framing of an accepted head is unambiguous.
  private static func checkFraming(of received: Transcript.Received) {
    let head = received.head
    let lengths = head.values(of: "content-length")
    let codings = head.values(of: "transfer-encoding")
    claim(lengths.count + codings.count <= 1, "Content-Length and Transfer-Encoding exclude each other")
    claim(
      head.values(of: "host").count == (head.version == .http11 ? 1 : head.values(of: "host").count), "Host")
    claim(head.values(of: "host").count <= 1, "one Host")
    claim(head.fields.count <= Transcript.limits.fields, "as many fields as the limit")
    claim(head.bytes.count <= Transcript.limits.head + 2, "a head as long as the limit")
    claim(received.body.count <= Transcript.maximumBodyLength, "a body as long as the limit")
    switch head.framing {
    case .none:
      claim(received.body.isEmpty, "no body")
      claim(codings.isEmpty && lengths.allSatisfy { $0.utf8.allSatisfy { $0 == 0x30 } }, "no length")
    case .length(let length):
      claim(received.body.count == length && lengths.map { Int($0) } == [length], "the length announced")
    case .chunked:
      claim(codings.map { $0.lowercased() } == ["chunked"] && head.version == .http11, "chunked")
    }
    for (index, byte) in head.bytes.enumerated() {
      claim(byte != 0, "no NUL")
      if byte == 0x0A { claim(index > 0 && head.bytes[index - 1] == 0x0D, "no bare LF") }
      if byte == 0x0D { claim(head.bytes[(index + 1)...].first == 0x0A, "no bare CR") }
    }
  }

  /// An accepted head that is encoded in the simplest form is decoded to the same head.
  private static func checkRoundTrip(of received: Transcript.Received) {
    let head = received.head
    var again: [UInt8] = []
    func write(_ text: String) { again += text.utf8 }
    write("\(head.method.rawValue) \(head.path)\(head.query.map { "?\($0)" } ?? "") ")
    write(head.version == .http11 ? "HTTP/1.1\r\n" : "HTTP/1.0\r\n")
    if let authority = head.authority { write("Host:\(authority)\r\n") }
    let rest = head.fields.filter { !Self.framing.contains($0.name.canonicalName) }
    for field in rest {
      write("\(field.name.rawName):")
      field.withUnsafeBytesOfValue { again += $0 }
      write("\r\n")
    }
    if !received.body.isEmpty { write("Content-Length:\(received.body.count)\r\n") }
    write("\r\n")
    // An absolute target of HTTP/1.0 adds a Host field, which may exceed the limit.
    guard rest.count + 2 <= Transcript.limits.fields, again.count <= Transcript.limits.head else { return }
    let transcript = Transcript(of: [again, received.body], ends: false)
    guard let second = transcript.requests.first else {
      return claim(false, "what was understood is understood again: \(transcript.events)")
    }
    claim(transcript.requests.count == 1, "one request")
    claim(second.body == received.body, "the same body")
    claim(second.head.method == head.method && second.head.version == head.version, "the same request")
    claim(second.head.path == head.path && second.head.query == head.query, "the same target")
    claim(second.head.authority == head.authority, "the same host")
    claim(second.head.wantsKeepAlive == head.wantsKeepAlive, "the same connection")
    claim(second.head.clientRequestID == head.clientRequestID, "the same request id")
    claim(
      second.head.fields.filter { !Self.framing.contains($0.name.canonicalName) } == rest, "the same fields")
  }

  private static let framing: Set = ["host", "content-length", "transfer-encoding"]

  /// The checks of every head.
  private static func checkUses(of head: RequestHead) {
    if case .route(_, let parameters) = head.withPath({ router.match(head.method, $0) }) {
      for name in ["one", "two"] {
        guard let value = parameters[name] else { continue }
        claim(!value.isEmpty && value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a path parameter")
      }
    }
    _ = head.query.map { try? Query(decoding: $0) }
    var generator = SystemRandomNumberGenerator()
    _ = head.trace(using: &generator)
    _ = AddressTarget.proxies.client(of: head, from: AddressTarget.peer)
  }

  private static let router = {
    var router = Router()
    for pattern in ["/", "/a", "/a/{one}", "/a/{one}/b/{two}", "/{one}/c"] {
      router.onImmediate(.get, pattern) { _ in Response(status: .ok) }
    }
    router.onImmediate(.post, "/a/{one}") { _ in Response(status: .ok) }
    return router
  }()
}

extension RequestHead {
  fileprivate func values(of name: String) -> [String] {
    fields.filter { $0.name.canonicalName == name }.map(\.value)
  }
}
