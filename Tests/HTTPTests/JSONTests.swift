import Foundation
import HTTPTypes
import Testing

@testable import HTTP

@Suite struct JSONTests {
  struct Order: Codable, Equatable {
    struct Item: Codable, Equatable { var name: String, count: Int }
    var items: [Item]
    var at: Date
    var paid: Bool?
  }

  private func problem(_ body: String) -> Problem? {
    #expect(throws: Problem.self) { try JSONCoding.decode(Order.self, from: Array(body.utf8)) }
  }

  @Test func `a value survives a round trip through JSON, with its time in RFC 3339`() throws {
    let order = Order(items: [.init(name: "a/b", count: 2)], at: Date(timeIntervalSince1970: 5))
    let bytes = try JSONCoding.encode(order)
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(text.contains(#""at":"1970-01-01T00:00:05Z""#))
    #expect(text.contains("a/b"))
    #expect(try JSONCoding.decode(Order.self, from: bytes) == order)
  }

  @Test(arguments: [
    "", " ", "{", "nonsense", "{\"items\": [}", "{} {}", "{\"a\": 1,}", "{'a': 1}",
  ])
  func `a body that is not JSON gets invalid_json`(body: String) {
    let problem = problem(body)
    #expect(problem?.code == .invalidJSON)
    #expect(problem?.status == .badRequest)
  }

  @Test(arguments: [
    [0x22, 0xFF, 0x22], [0xEF, 0xBB, 0xBF, 0x7B, 0x7D], [0xFE, 0xFF, 0x00, 0x7B, 0x00, 0x7D],
    [0x7B, 0x00, 0x7D, 0x00], [0x22, 0xC0, 0xAF, 0x22],
  ])
  func `a body that is not UTF-8 gets invalid_json`(bytes: [UInt8]) {
    let problem = #expect(throws: Problem.self) { try JSONCoding.decode(String.self, from: bytes) }
    #expect(problem?.code == .invalidJSON)
  }

  @Test(arguments: [
    (#"{"at": "2026-01-01T00:00:00Z"}"#, "'items' is missing."),
    (#"{"items": 5, "at": ""}"#, "'items' must be an array."),
    (#"{"items": [{"name": "a"}], "at": ""}"#, "'items[0].count' is missing."),
    (#"{"items": [{"name": 1, "count": 1}], "at": ""}"#, "'items[0].name' must be a string."),
    (#"{"items": [{"name": "a", "count": "1"}], "at": ""}"#, "'items[0].count' must be a whole number."),
    (#"{"items": null, "at": ""}"#, "'items' must not be null."),
    (#"{"items": [], "at": "yesterday"}"#, "'at': a time as in RFC 3339 is expected."),
    (#"{"items": [], "at": "2026-01-01T00:00:00Z", "paid": 1}"#, "'paid' must be true or false."),
    (#"[]"#, "'the body' must be an object."),
  ])
  func `a body of another JSON shape gets invalid_request with the member's name`(
    body: String, detail: String
  ) {
    let problem = problem(body)
    #expect(problem?.code == .invalidRequest)
    #expect(problem?.detail == detail)
  }

  @Test func `JSON nesting is limited to 32 levels, and brackets in strings do not count`() throws {
    let deep = String(repeating: "[", count: 33) + String(repeating: "]", count: 33)
    let problem = #expect(throws: Problem.self) { try JSONCoding.check(Array(deep.utf8)) }
    #expect(problem?.code == .invalidJSON)
    try JSONCoding.check(Array(deep.dropFirst().dropLast().utf8))
    try JSONCoding.check(Array(#"["\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\", "[{\\\"["]"#.utf8))
  }

  @Test(arguments: [
    "0", "-0", "-1.5e+10", "1E-2", "10", "\"\"", "\"\\u00e9\\n\\/\"", "true", "false", "null", "[]", "{}",
    " [ 1 , {\"a\" : [ ] } ]\r\n\t", "{\"a\":{\"b\":[1,2,{\"c\":null}]}}", "\"\u{7F}\u{1F600}\"",
  ])
  func `every form of JSON is accepted`(text: String) throws {
    try JSONCoding.check(Array(text.utf8))
  }

  @Test(arguments: [
    "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "1_0", "NaN", "Infinity", "True", "nul", "nulll", "[1,]",
    "[,1]", "[1 2]", "[1", "]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:1}", "{\"a\":1 \"b\":2}",
    "\"", "\"\\\"", "\"\\x\"", "\"\\u12g4\"", "\"\\u123\"", "\"a\nb\"", "\"\t\"", "\"\0\"", "'a'", "1 1",
    "/* c */ 1", "[1] // c", "\u{A0}1", "\u{B}1",
  ])
  func `text that resembles JSON is refused`(text: String) {
    #expect(throws: Problem.self) { try JSONCoding.check(Array(text.utf8)) }
  }

  @Test func `a truncated JSON object is refused`() throws {
    let bytes = Array(#" {"a": [1.5e3, true, null, "x\u0041\"y"], "b": {"c": {}}}"#.utf8)
    try JSONCoding.check(bytes)
    for count in 0..<bytes.count {
      #expect(throws: Problem.self) { try JSONCoding.check(Array(bytes[..<count])) }
    }
  }

  @Test(arguments: [
    ("application/json", true), ("Application/JSON; charset=utf-8", true), ("application/json ;x=y", true),
    ("application/vnd.api+json", true), ("text/plain", false), ("application/jsonp", false), ("", false),
  ])
  func `a body without a JSON content type gets 415`(contentType: String, isTaken: Bool) {
    let request = Request(method: .post, path: "/", headers: [.contentType: contentType])
    if isTaken {
      #expect(throws: Never.self) { try request.requireJSON() }
    } else {
      let problem = #expect(throws: Problem.self) { try request.requireJSON() }
      #expect(problem?.status == .unsupportedMediaType)
    }
  }

  @Test func `a problem response has the members of RFC 9457 and receiptd's own`() throws {
    struct Document: Decodable, Equatable {
      var type: String, title: String, status: Int, detail: String, code: String, success: Bool
      var error: String, requestID: String
    }
    let response = Response(
      Problem(
        status: .tooManyRequests, code: "rate_limited", detail: "20 a second.", message: "Slow down.",
        headers: [.retryAfter: "1"]), requestID: .client("abc"))
    #expect(response.status == .tooManyRequests)
    #expect(response.headers[.contentType] == "application/problem+json")
    #expect(response.headers[.retryAfter] == "1")
    #expect(
      try JSONCoding.decode(Document.self, from: response.body)
        == Document(
          type: "about:blank", title: "Too Many Requests", status: 429, detail: "20 a second.",
          code: "rate_limited", success: false, error: "Slow down.", requestID: "abc"))
  }
}
