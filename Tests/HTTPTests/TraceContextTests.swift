import Testing

@testable import HTTP

@Suite struct TraceContextTests {
  /// Always returns the same number, so that the generated ids are known.
  private struct Constant: RandomNumberGenerator {
    var number: UInt64 = 0x0123_4567_89AB_CDEF
    mutating func next() -> UInt64 { number }
  }

  private static let trace = "0af7651916cd43dd8448eb211c80319c"
  private static let given = "00-\(trace)-b7ad6b7169203331-01"

  private func read(_ text: String, _ generator: Constant = Constant()) -> TraceContext? {
    var generator = generator
    return TraceContext(continuing: text.utf8.span, using: &generator)
  }

  @Test func `a request continues the client's trace under a new span`() throws {
    let context = try #require(read(Self.given))
    #expect(context.traceID == Self.trace)
    #expect(context.traceparent == "00-\(Self.trace)-0123456789abcdef-01")
  }

  @Test(arguments: [("00", "00"), ("01", "01"), ("02", "00"), ("ff", "01")])
  func `only the sampled flag of traceparent is forwarded`(flags: String, passedOn: String) throws {
    let context = try #require(read("00-\(Self.trace)-b7ad6b7169203331-\(flags)"))
    #expect(context.traceparent.hasSuffix("-\(passedOn)"))
  }

  @Test(arguments: [
    given.replacing("00-0af", with: "cc-0af") + "-what-the-future-brings",
    given.replacing("00-0af", with: "cc-0af"),
  ])
  func `a later version of traceparent is parsed as version 00, and version 00 is sent`(text: String) throws {
    #expect(try #require(read(text)).traceparent == "00-\(Self.trace)-0123456789abcdef-01")
  }

  @Test(arguments: [
    "", "00", given + "-", given + "-x", given + "0", String(given.dropLast()), " " + given,
    given.uppercased(), given.replacing("00-0af", with: "ff-0af"), given.replacing("00-0af", with: "0g-0af"),
    given.replacing("-b7", with: "_b7"), given.replacing("0af", with: "0aF"),
    given.replacing("b7ad", with: "b7 d"),
    given.replacing("b7ad", with: "+7ad"), given.replacing("00-0af", with: "cc-0af") + "x",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-\(trace)-0000000000000000-01",
  ])
  func `a malformed traceparent is ignored`(text: String) { #expect(read(text) == nil) }

  @Test func `a new trace id and a new span id are never zero`() throws {
    var zero = Constant(number: 0)
    #expect(
      TraceContext.new(using: &zero).traceparent
        == "00-00000000000000000000000000000001-0000000000000001-00")
    #expect(try #require(read(Self.given, zero)).traceparent.contains("-0000000000000001-"))
  }

  @Test func `a request's trace is in its summary and in its handler's task`() async throws {
    let fixture = try ServerFixture()
    let field = "traceparent: \(Self.given)\r\n"
    for (fields, expected) in [
      (field, Self.trace), (field + field, nil), ("", nil), ("traceparent: nonsense\r\n", nil),
    ] {
      let request = "GET /trace HTTP/1.1\r\nHost: x\r\n\(fields)Connection: close\r\n\r\n"
      let response = try #require(try fixture.exchange(request).first)
      let seen = String(decoding: response.body, as: UTF8.self)
      let summary = try #require(fixture.summaries.all.last)
      #expect(seen.contains(summary.trace.traceID))
      if let expected { #expect(summary.trace.traceID == expected) }
      if expected == nil { #expect(summary.trace.traceID != Self.trace) }
    }
    #expect(Set(fixture.summaries.all.map(\.trace.traceID)).count == 4)
    await fixture.server.shutdown(within: .seconds(1))
  }

  @Test func `a response summary has the template and the index of its route`() async throws {
    let fixture = try ServerFixture()
    _ = try fixture.exchange("GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    _ = try fixture.exchange("GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    let summaries = fixture.summaries.all
    #expect(summaries.map(\.route) == ["/later", "unmatched"])
    #expect(summaries.map(\.routeIndex) == [1, nil])
    await fixture.server.shutdown(within: .seconds(1))
  }
}
