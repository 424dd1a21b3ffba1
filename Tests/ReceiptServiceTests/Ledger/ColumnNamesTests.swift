import FoundationEssentials
import Postgres
import Testing

@testable import ReceiptService

/// What is kept of a payload beside its columns.
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
  func `what has no column is kept, however the text is laid out`(json: String) throws {
    #expect(try remainder(json) == ["new": .string("text")])
  }

  @Test(arguments: [#"{}"#, " {} ", #"{"known":1}"#, #"{"known":{"new":1},"other":"\"new\""}"#])
  func `nothing is kept where everything has a column`(json: String) throws {
    #expect(names.remainder(of: Array(json.utf8)) == nil)
  }

  @Test(arguments: [
    #"-1"#, "123456789012345678", "1234567890123456789012", "1.50", "1e3", "true", "false", "null", #""""#,
    #""ü\u00fc \" \\ \n""#, "[]", #"[1,{"a":[]}]"#, #"{"known":1}"#, #""}""#, #""{""#,
  ])
  func `any value is kept as it was`(value: String) throws {
    let kept = try #require(try remainder(#"{"known":1,"new":\#(value),"other":2}"#))
    let expected = try JSONDecoder().decode([JSONValue].self, from: Data("[\(value)]".utf8))
    #expect(kept == ["new": expected[0]])
  }

  @Test func `a column's name written with escapes is the column's name`() throws {
    #expect(try remainder(#"{"kn\u006fwn":1,"new":true}"#) == ["new": .bool(true)])
  }

  @Test func `a claim that PostgreSQL cannot keep is left out with the rest`() {
    #expect(names.remainder(of: Array(#"{"new":"\u0000"}"#.utf8)) == nil)
  }

  @Test func `a backslash and the letters of U+0000 are no U+0000`() throws {
    #expect(try remainder(#"{"new":"\\u0000"}"#) == ["new": .string(#"\u0000"#)])
    #expect(names.remainder(of: Array(#"{"new":"\\\u0000"}"#.utf8)) == nil)
  }

  @Test func `what is cut off anywhere ends nowhere else`() {
    let json = Array(#"{"new":{"a":["x\"y",1]},"known":-12,"n":"v"}"#.utf8)
    for count in 0..<json.count {
      // Nothing is promised of what is no JSON but that it is read to its end.
      let members = Array(JSONMembers(of: Array(json[..<count])))
      #expect(members.allSatisfy { $0.value.upperBound <= count && $0.name.upperBound <= count })
    }
  }
}
