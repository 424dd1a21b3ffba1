import Foundation
import Platform
import Testing

@testable import JSON

struct JSONWriterTests {
  private func text(_ value: some JSONWritable) -> String {
    String(decoding: JSONWriter.bytes(of: value), as: UTF8.self)
  }

  @Test func `the JSON writer's output equals Foundation's byte for byte, and Foundation reads it`() throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var random = SplitMix64(state: 1)
    for _ in 0..<3_000 {
      let tree = Tree.random(depth: 4, using: &random)
      let written = JSONWriter.bytes(of: tree)
      #expect(written == Array(try encoder.encode(tree)))
      // Foundation may decode 5.0 as 5, so the texts are compared.
      let again = try JSONDecoder().decode(Tree.self, from: Data(written))
      #expect(JSONWriter.bytes(of: again) == written)
      #expect(throws: Never.self) { try JSONReader.check(written, maximumDepth: 32) }
    }
  }

  @Test func `every character survives a round trip through the JSON writer and both readers`() throws {
    for value in UInt32(0)...0x10FFFF where value < 0x3000 || value % 97 == 0 || value > 0x10FF00 {
      guard let scalar = Unicode.Scalar(value) else { continue }
      let string = "a\(Character(scalar))b"
      let written = JSONWriter.bytes(of: [string])
      #expect(try JSONReader.read([String].self, from: written, maximumDepth: 1) == [string])
      // Foundation is slow; it reads the other characters in the longer strings of the test above.
      if value < 0x900 { #expect(try JSONDecoder().decode([String].self, from: Data(written)) == [string]) }
    }
  }

  @Test(arguments: [Int64.min, .max, 0, -1, 1, 9, 10, 99, 100, -100, 1_000_000_007])
  func `the JSON writer writes integers in decimal digits`(number: Int64) {
    #expect(text(number) == "\(number)")
    #expect((try? JSONReader.read(Int64.self, from: Array("\(number)".utf8), maximumDepth: 1)) == number)
  }

  @Test func `the JSON writer writes infinities and NaN as null`() {
    #expect(text([Double.infinity, -.infinity, .nan, -0.0, 2]) == "[null,null,null,-0,2]")
  }

  @Test func `the JSON writer separates members and elements by commas`() {
    struct Nested: JSONWritable {
      func write(to json: inout JSONWriter) {
        json.object { json in
          json.member("absent", ifPresent: String?.none)
          json.member("empty", [Int]())
          json.member("list", [[1, 2], [], [3]])
          json.member("none", String?.none)
          json.member("one", ifPresent: 1)
          json.member("some", String?("x"))
          json.member("table", ["b": true, "a": false])
        }
      }
    }
    #expect(
      text([Nested(), Nested()])
        == """
        [{"empty":[],"list":[[1,2],[],[3]],"none":null,"one":1,"some":"x","table":{"a":false,"b":true}},\
        {"empty":[],"list":[[1,2],[],[3]],"none":null,"one":1,"some":"x","table":{"a":false,"b":true}}]
        """)
  }
}
