import Foundation
import FuzzSupport
import JSON
import Postgres

@testable import HTTP
@testable import Ledger
@testable import ReceiptService

/// Compares the members that `JSONMembers` finds in a text with those that a decoder finds.
enum MemberTarget {
  private static let columns: ColumnNames = ["transactionId", "price", "a"]
  private static let names: Set = ["transactionId", "price", "a"]

  @Sendable static func check(_ bytes: [UInt8]) {
    // Bytes that are not JSON must not end the process.
    let members = Array(JSONMembers(of: bytes))
    for member in members {
      claim(member.name.lowerBound >= 0 && member.name.upperBound < member.value.lowerBound, "in order")
      claim(member.value.upperBound <= bytes.count, "within the text")
    }
    let rest = columns.remainder(of: bytes)
    guard (try? JSONCoding.check(bytes)) != nil,
      let decoded = try? JSONDecoder().decode([String: JSONValue].self, from: Data(bytes))
    else { return }
    claim(members.count >= decoded.count, "every member is found")
    // JSON does not define which of two members with the same name counts.
    guard members.count == decoded.count else { return }
    for member in members {
      guard
        let name = try? JSONDecoder().decode(String.self, from: Data([0x22] + bytes[member.name] + [0x22]))
      else { return claim(false, "a name is a string") }
      let value = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes[member.value]))
      claim(value != nil && value == decoded[name], "every value is found under its name")
    }
    check(rest, beside: decoded.filter { !names.contains($0.key) })
  }

  private static func check(_ rest: JSONText?, beside expected: [String: JSONValue]) {
    guard let rest else {
      let text = (try? JSONEncoder().encode(expected)).map { String(decoding: $0, as: UTF8.self) }
      return claim(
        expected.isEmpty || text?.escapesZero != false, "nothing without a column is lost")
    }
    claim((try? JSONCoding.check(Array(rest.text.utf8))) != nil, "the rest is JSON")
    claim(!rest.text.escapesZero, "the rest is what PostgreSQL takes")
    let decoded = try? JSONDecoder().decode([String: JSONValue].self, from: Data(rest.text.utf8))
    let isWhole = decoded.map { agree(.object($0), .object(expected)) } ?? false
    claim(isWhole, "the rest is all that has no column")
  }

  /// Whether two values are equal. A fraction beyond Double's precision can be an integer after a round trip.
  private static func agree(_ one: JSONValue, _ other: JSONValue) -> Bool {
    switch (one, other) {
    case (.integer(let whole), .number(let number)), (.number(let number), .integer(let whole)):
      Double(whole) == number
    case (.array(let these), .array(let those)):
      these.count == those.count && zip(these, those).allSatisfy { agree($0, $1) }
    case (.object(let these), .object(let those)):
      these.keys == those.keys
        && these.allSatisfy { name, value in those[name].map { agree(value, $0) } == true }
    default: one == other
    }
  }
}
