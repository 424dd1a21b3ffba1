import FoundationEssentials
import JSON
import Postgres

/// The claims of a payload that have columns.
struct ColumnNames: ExpressibleByArrayLiteral, Sendable {
  private let names: JSONNameTable

  init(arrayLiteral names: String...) {
    self.names = JSONNameTable(names)
  }

  /// The members of a JSON object that have no column, as a JSON object; `nil` if there are none.
  func remainder(of payload: [UInt8]) -> JSONText? {
    var rest: [UInt8] = []
    for member in JSONMembers(of: payload) where !names.contains(payload[member.name]) {
      // PostgreSQL may refuse such text or read it in another way, so it is decoded and encoded again.
      guard Self.isPlain(payload[member.name]), Self.isPlain(payload[member.value]) else {
        return rewrittenRemainder(of: payload)
      }
      rest.append(rest.isEmpty ? UInt8(ascii: "{") : UInt8(ascii: ","))
      // With the quotation marks around the name.
      rest += payload[member.name.lowerBound - 1...member.name.upperBound]
      rest.append(UInt8(ascii: ":"))
      rest += payload[member.value]
    }
    guard !rest.isEmpty else { return nil }
    rest.append(UInt8(ascii: "}"))
    return JSONText(String(decoding: rest, as: UTF8.self))
  }

  /// Whether it is a string without escapes, an integer, or a literal.
  private static func isPlain(_ text: ArraySlice<UInt8>) -> Bool {
    guard let first = text.first else { return true }
    return switch first {
    case UInt8(ascii: "{"), UInt8(ascii: "["): false
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      text.count <= 18 && text.dropFirst().allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    default: !text.contains(UInt8(ascii: "\\"))
    }
  }

  private func rewrittenRemainder(of payload: [UInt8]) -> JSONText? {
    guard let claims = try? JSONDecoder().decode([String: JSONValue].self, from: Data(payload)) else {
      return nil
    }
    let rest = claims.filter { !names.contains(Array($0.key.utf8)[...]) }
    guard !rest.isEmpty, let encoded = try? JSONEncoder().encode(rest) else { return nil }
    // PostgreSQL's jsonb has no U+0000. A payload with one loses its other claims and nothing else.
    let text = String(decoding: encoded, as: UTF8.self)
    let holdsZero = text.replacing(#"\\"#, with: "").contains(#"\u0000"#)
    return holdsZero ? nil : JSONText(text)
  }
}
