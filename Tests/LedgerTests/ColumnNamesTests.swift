import FoundationEssentials
import JSON
import Postgres
import Testing

@testable import Ledger

/// The remainder of a payload: the members without a column of their own.
struct ColumnNamesTests {
  private let names: ColumnNames = ["known", "other"]

  private func remainder(_ json: String) throws -> [String: JSONValue]? {
    guard let text = names.remainder(of: Array(json.utf8)) else { return nil }
    return try JSONDecoder().decode([String: JSONValue].self, from: Data(text.text.utf8))
  }

  @Test(arguments: [
    #"{"known":1,"new":"text","other":{"new":2}}"#,
    #" { "new" : "text" , "known" : "a,\"new\":1}" } "#,
    #"{"known":[{"new":"}"},"]"],"new":"text"}"#,
    #"{"new":"text"}"#,
  ])
  func `the remainder has the members without a column, for any layout of the JSON`(json: String) throws {
    #expect(try remainder(json) == ["new": .string("text")])
  }

  @Test(arguments: [#"{}"#, " {} ", #"{"known":1}"#, #"{"known":{"new":1},"other":"\"new\""}"#])
  func `the remainder is nil if every member has a column`(json: String) throws {
    #expect(names.remainder(of: Array(json.utf8)) == nil)
  }

  @Test(arguments: [
    #"-1"#, "123456789012345678", "1234567890123456789012", "1.50", "1e3", "true", "false", "null", #""""#,
    #""ü\u00fc \" \\ \n""#, "[]", #"[1,{"a":[]}]"#, #"{"known":1}"#, #""}""#, #""{""#,
  ])
  func `the remainder keeps any JSON value unchanged`(value: String) throws {
    let kept = try #require(try remainder(#"{"known":1,"new":\#(value),"other":2}"#))
    let expected = try JSONDecoder().decode([JSONValue].self, from: Data("[\(value)]".utf8))
    #expect(kept == ["new": expected[0]])
  }

  @Test func `a column's name with escapes in the JSON still names the column`() throws {
    #expect(try remainder(#"{"kn\u006fwn":1,"new":true}"#) == ["new": .bool(true)])
  }

  @Test func `the remainder is nil if a value has U+0000, which PostgreSQL cannot store`() {
    #expect(names.remainder(of: Array(#"{"new":"\u0000"}"#.utf8)) == nil)
  }

  @Test func `an escaped backslash before u0000 does not count as U+0000`() throws {
    #expect(try remainder(#"{"new":"\\u0000"}"#) == ["new": .string(#"\u0000"#)])
    #expect(names.remainder(of: Array(#"{"new":"\\\u0000"}"#.utf8)) == nil)
  }

  @Test func `truncated JSON never yields a range beyond its end`() {
    let json = Array(#"{"new":{"a":["x\"y",1]},"known":-12,"n":"v"}"#.utf8)
    for count in 0..<json.count {
      // For invalid JSON the only promise is that no range is outside of the text.
      let members = Array(JSONMembers(of: Array(json[..<count])))
      #expect(members.allSatisfy { $0.value.upperBound <= count && $0.name.upperBound <= count })
    }
  }
}
