import Foundation
import Platform
import Testing

@testable import JSON

/// Compares the JSON reader with Foundation's decoder on mutated JSON.
struct FoundationAgreementTests {
  private static let seeds = [
    #"{"text":"a\u0041\ud83d\ude00\"","number":-1.5e1,"small":3,"inner":{"count":1},"names":["x"],"flag":true}"#,
    #"{"number":1e3,"text":"","inners":[{"count":0,"label":"l"},{"count":-0}],"new":[null,{"a":[1.5]}]}"#,
    #"{"text":"é😀","number":9223372036854775807,"number":0,"small":null,"inner":null,"names":[]}"#,
  ]
  private static let pieces = [
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d", "null", "true", "false", "0", "-", ".", "e",
    "1e2", " ",
    "\n", "\0", "é", "\u{1F}", "\"text\":", "\"count\":", "\"number\":2,", "00", "1.50",
    "99999999999999999999",
  ]

  private static func mutate(_ bytes: [UInt8], using random: inout SplitMix64) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...3, using: &random) where !bytes.isEmpty {
      let index = Int.random(in: bytes.indices, using: &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      case 1: bytes.remove(at: index)
      case 2: bytes.insert(contentsOf: pieces.pick(using: &random).utf8, at: index)
      default:
        let end = min(bytes.count, index + Int.random(in: 0..<12, using: &random))
        bytes.replaceSubrange(index..<end, with: pieces.pick(using: &random).utf8)
      }
    }
    return bytes
  }

  private static func read(_ bytes: [UInt8]) -> (Sample?, JSONFailure?) {
    do throws(JSONFailure) {
      return (try JSONReader.read(Sample.self, from: bytes, maximumDepth: 512), nil)
    } catch {
      return (nil, error)
    }
  }

  @Test
  func
    `the JSON reader agrees with Foundation on mutated JSON, except for invalid JSON and inexact integers`()
  {
    var random = SplitMix64(state: 7)
    var (accepted, refused, stricter) = (0, 0, 0)
    for _ in 0..<12_000 {
      let bytes = Self.mutate(Array(Self.seeds.pick(using: &random).utf8), using: &random)
      let (ours, failure) = Self.read(bytes)
      let theirs = try? JSONDecoder().decode(Sample.self, from: Data(bytes))
      if ours == theirs {
        if ours == nil { refused += 1 } else { accepted += 1 }
        continue
      }
      // `check` follows RFC 8259 strictly; the fuzz target `json` compares it with Foundation.
      let isJSON = (try? JSONReader.check(bytes, maximumDepth: 512)) != nil
      // Foundation also accepts as an integer a fraction that a Double rounds to one.
      #expect(
        ours == nil && (!isJSON || failure?.reason == .mismatch(.integer)),
        "\(String(decoding: bytes, as: UTF8.self))")
      stricter += 1
    }
    // The test proves something only if every outcome is frequent.
    #expect(accepted > 1_000 && refused > 1_000 && stricter > 10)
  }

  @Test(arguments: [
    // A comma before a closing bracket.
    #"{"text":"","number":1,}"#, #"{"text":"","number":1,"names":["a",]}"#,
    // Invalid values of unknown members, which Foundation does not validate.
    #"{"text":"","number":1,"x":01}"#, "{\"text\":\"\",\"number\":1,\"x\":\"\u{1}\"}",
    // A fraction beyond the precision of a Double, and a number close to zero.
    #"{"text":"","number":1.00000000000000000001}"#, #"{"text":"","number":1e-400}"#,
  ])
  func `the JSON reader refuses invalid JSON that Foundation accepts`(json: String) throws {
    #expect(throws: Never.self) { try JSONDecoder().decode(Sample.self, from: Data(json.utf8)) }
    #expect(throws: JSONFailure.self) { try Sample.read(json) }
  }

  @Test func `the JSON reader accepts Int64.max written with a fraction, which Foundation refuses`() throws {
    // Foundation converts a number with a fraction through Double, which rounds this one up to 2 to the 63rd.
    let json = #"{"text":"","number":9223372036854775807.0}"#
    #expect(throws: (any Error).self) { try JSONDecoder().decode(Sample.self, from: Data(json.utf8)) }
    #expect(try Sample.read(json).number == .max)
  }
}
