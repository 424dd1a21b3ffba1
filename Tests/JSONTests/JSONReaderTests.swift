import Testing

@testable import JSON

struct JSONReaderTests {
  private func failure(_ json: String) -> JSONFailure? {
    #expect(throws: JSONFailure.self) { try Sample.read(json) }
  }

  @Test func `the JSON reader accepts members in any order and skips unknown ones`() throws {
    let sample = try Sample.read(
      """
       { "new" : [ { "number" : 1 } , "}" ] , "inner":{"label":null,"count":-3,"x":{}}, "flag":false,
      "names":["a","\\u00e9\\n"],"inners":[{"count":1},{"count":2,"label":"l"}],"number" : 7 ,"text":"t" } 
      """)
    #expect(sample.text == "t" && sample.number == 7 && sample.flag == false && sample.small == nil)
    #expect(sample.names == ["a", "\u{E9}\n"])
    #expect(sample.inner?.count == -3 && sample.inner?.label == nil)
    #expect(sample.inners?.map(\.count) == [1, 2] && sample.inners?.last?.label == "l")
  }

  @Test(
    arguments: [
      (#"{"number":1}"#, .missing("text"), [.member("text")]),
      (#"{"text":"","number":null}"#, .null, [.member("number")]),
      (#"{"text":1,"number":1}"#, .mismatch(.string), [.member("text")]),
      (#"{"text":"","number":1.5}"#, .mismatch(.integer), [.member("number")]),
      (#"{"text":"","number":1,"small":2147483648}"#, .mismatch(.integer), [.member("small")]),
      (#"{"text":"","number":1,"flag":"true"}"#, .mismatch(.boolean), [.member("flag")]),
      (#"{"text":"","number":1,"names":{}}"#, .mismatch(.array), [.member("names")]),
      (
        #"{"text":"","number":1, "names" : [ "a", 1 ] }"#, .mismatch(.string),
        [.member("names"), .element(1)]
      ),
      (
        #"{"x":[[],{}],"inner":{"x":[0],"label":"l"}}"#, .missing("count"),
        [.member("inner"), .member("count")]
      ),
      (
        #"{"inners":[{"count":1}, {"c\u006funt":true}]}"#, .mismatch(.integer),
        [.member("inners"), .element(1), .member("count")]
      ),
      (#"{"inners":[{"count":1},7]}"#, .mismatch(.object), [.member("inners"), .element(1)]),
      ("[]", .mismatch(.object), []), ("null", .null, []),
    ] as [(String, JSONFailure.Reason, [JSONFailure.Step])])
  func `a JSON failure has the path to the invalid value`(
    json: String, reason: JSONFailure.Reason, path: [JSONFailure.Step]
  ) {
    let failure = failure(json)
    #expect(failure?.reason == reason)
    #expect(failure?.path == path)
  }

  @Test(arguments: [
    #"{"text":1,"number":1"#, #"{"number":"x","text":"\x"}"#, #"{"text":null,"number":1,}"#,
    #"{"number":1} 1"#,
  ])
  func `a JSON syntax error takes precedence over other failures`(json: String) {
    #expect(failure(json)?.reason == .malformed)
  }

  @Test(arguments: [
    #"{"text":"\ud800","number":1}"#, #"{"text":"\udc00\ud800","number":1}"#,
    #"{"text":"\ud800x","number":1}"#,
    #"{"text":"\ud800\n","number":1}"#, #"{"te\udfffxt":"","text":"","number":1}"#,
    #"{"text":"\ud83d\u0041","number":1}"#,
  ])
  func `the JSON reader refuses half of a surrogate pair`(json: String) {
    #expect(failure(json)?.reason == .malformed)
  }

  @Test func `the first of two JSON members with the same name counts, even if one is escaped`() throws {
    #expect(try Sample.read(#"{"text":"a","text":"b","number":1,"numb\u0065r":{}}"#).text == "a")
    #expect(try Sample.read(#"{"t\u0065xt":"a","text":"b","number":1}"#).text == "a")
  }

  @Test(
    arguments: [
      ("1.0", 1), ("1e3", 1000), ("1.5E+1", 15), ("-0", 0), ("-0.0e5", 0), ("120e-1", 12),
      ("0e999999999999999999999", 0),
      ("9223372036854775807", .max), ("-9223372036854775808", .min), ("-9223372036854775808.0", .min),
      ("922337203685477580.7e1", .max), ("9007199254740993.0", 9_007_199_254_740_993), ("1.000e0", 1),
    ] as [(String, Int64)])
  func `the JSON reader accepts an integer in every notation`(text: String, number: Int64) throws {
    #expect(try JSONReader.read(Int64.self, from: Array(text.utf8), maximumDepth: 1) == number)
  }

  @Test(arguments: [
    "9223372036854775808", "-9223372036854775809", "1.5", "1e19", "1e-1", "1.0000000000000000000001",
    "1e-400",
    "1e400", "12345678901234567890123", "1e99999999999999999999999", "true", "\"1\"", "[1]",
  ])
  func `the JSON reader refuses a fraction or an integer beyond 64 bits`(text: String) {
    let failure = #expect(throws: JSONFailure.self) {
      try JSONReader.read(Int64.self, from: Array(text.utf8), maximumDepth: 1)
    }
    #expect(failure?.reason == .mismatch(.integer))
  }

  @Test(arguments: [
    "01", "-", "-a", "1.", ".5", "1e", "1e+", "+1", "0x1", "--1", "nul", "tru", "\"", "\"\\",
    "\"\\u12",
  ])
  func `the JSON reader refuses text that resembles a JSON value`(text: String) {
    for json in [text, "[\(text)]", "{\"text\":\(text)}", "{\"unknown\":\(text)}"] {
      #expect(failure(json)?.reason == .malformed)
    }
  }

  @Test(arguments: ["", " ", "{\"text\":}", "{\"unknown\": }", "{\"names\":[,]}"])
  func `the JSON reader refuses a missing value`(json: String) {
    #expect(failure(json)?.reason == .malformed)
  }

  @Test func `the JSON reader ends a string at its quotation mark, at any offset within its 8-byte steps`()
    throws
  {
    for count in 0..<40 {
      for filler in ["a", "\u{7F}", "\u{E9}", "\u{1F600}", " ", "!", "#", "[", "]"] {
        let text = String(repeating: filler, count: count)
        #expect(
          try JSONReader.read([String].self, from: Array("[\"\(text)\",\"\"]".utf8), maximumDepth: 1) == [
            text, "",
          ])
        let escaped = "[\"\(text)\\\"\(text)\",\"\"]"
        #expect(
          try JSONReader.read([String].self, from: Array(escaped.utf8), maximumDepth: 1) == [
            "\(text)\"\(text)", "",
          ])
        for control in UInt8(0)..<0x20 {
          let bytes = Array("[\"\(text)".utf8) + [control] + Array("\"]".utf8)
          #expect(throws: JSONFailure.self) {
            try JSONReader.read([String].self, from: bytes, maximumDepth: 1)
          }
          #expect(throws: JSONFailure.self) { try JSONReader.check(bytes, maximumDepth: 1) }
        }
      }
    }
  }

  @Test func `the JSON reader limits the depth of values that it reads and skips`() {
    let fits = #"{"text":"","number":1,"x":[[[[[[[]]]]]]]}"#
    #expect(throws: Never.self) { try Sample.read(fits) }
    #expect(failure(fits.replacing("[]", with: "[[]]"))?.reason == .tooDeep)
  }

  @Test func `the JSON reader refuses other encodings than UTF-8, also in skipped values`() {
    let bytes: [[UInt8]] = [
      [0xEF, 0xBB, 0xBF, 0x7B, 0x7D], [0x7B, 0x00, 0x7D, 0x00],
      Array(#"{"text":"","number":1,"x":""#.utf8) + [0xC0, 0xAF] + Array("\"}".utf8),
    ]
    for bytes in bytes {
      #expect(throws: JSONFailure.self) { try JSONReader.read(Sample.self, from: bytes, maximumDepth: 8) }
    }
  }

  @Test func `the JSON reader refuses a truncated object`() {
    let json = Array(
      #"{"text":"a\u0041\ud83d\ude00","number":-1.5e1,"inner":{"count":1},"names":["x"],"flag":true}"#.utf8)
    #expect(throws: Never.self) { try JSONReader.read(Sample.self, from: json, maximumDepth: 8) }
    for count in 0..<json.count {
      let failure = #expect(throws: JSONFailure.self) {
        try JSONReader.read(Sample.self, from: Array(json[..<count]), maximumDepth: 8)
      }
      #expect(failure?.reason == .malformed)
    }
  }
}
