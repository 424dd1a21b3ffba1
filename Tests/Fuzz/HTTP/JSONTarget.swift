import Foundation
import FuzzSupport

@testable import HTTP

/// Compares the JSON check, which every body passes first, with Foundation's decoder.
enum JSONTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    let isAccepted = (try? JSONCoding.check(bytes)) != nil
    let tree = try? JSONDecoder().decode(JSONTree.self, from: Data(bytes))
    if isAccepted {
      claim(bytes.first != 0xEF && String(validating: bytes, as: UTF8.self) != nil, "UTF-8 without a mark")
      claim(
        tree != nil || mayBeUndecodable(bytes),
        "Foundation takes all that we take, but for numbers and surrogates that it cannot hold")
    } else if tree != nil {
      claim(isStricter(about: bytes), "we take all that Foundation takes, but for what we are stricter about")
    }
    guard let decoded = try? JSONCoding.decode(JSONTree.self, from: bytes) else { return }
    claim(isAccepted, "nothing is decoded that is not JSON")
    guard let again = try? JSONCoding.encode(decoded) else {
      return claim(false, "what was decoded can be encoded")
    }
    claim(
      (try? JSONCoding.decode(JSONTree.self, from: again)) == decoded, "what is written is read as it was")
  }

  /// Whether the JSON may have a number beyond Double's range or half of a surrogate pair.
  private static func mayBeUndecodable(_ bytes: [UInt8]) -> Bool {
    let text = String(decoding: bytes, as: UTF8.self).lowercased()
    return text.contains("\\ud") || text.utf8.contains(UInt8(ascii: "e"))
      || text.utf8.split(whereSeparator: { !(0x30...0x39).contains($0) }).contains { $0.count > 300 }
  }

  /// Whether the check may refuse input that Foundation accepts: other encodings than UTF-8, a byte order mark, a comma
  /// before a
  /// closing bracket, a greater depth, or an invalid string under a repeated name. Of repeated names Foundation reads
  /// only the last.
  private static func isStricter(about bytes: [UInt8]) -> Bool {
    if String(validating: bytes, as: UTF8.self) == nil || bytes.contains(0) || bytes.first == 0xEF {
      return true
    }
    var names: [Set<String>] = [[]]
    var text = 0..<0
    var (isInString, isEscaped, last) = (false, false, UInt8(0))
    for (index, byte) in bytes.enumerated() {
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
          text = text.lowerBound..<index + 1
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "{"), UInt8(ascii: "["):
        names.append([])
        if names.count > JSONCoding.maximumDepth + 1 { return true }
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        if last == UInt8(ascii: ",") { return true }
        if names.count > 1 { names.removeLast() }
      case UInt8(ascii: "\""):
        isInString = true
        text = index..<index
      case UInt8(ascii: ":"):
        let name = try? JSONDecoder().decode(String.self, from: Data(bytes[text]))
        if let name, !names[names.count - 1].insert(name).inserted { return true }
      case 0x20, 0x09, 0x0A, 0x0D: continue
      default: break
      }
      last = byte
    }
    return false
  }
}

/// Any JSON value, with all of its parts decoded.
indirect enum JSONTree: Codable, Equatable {
  case null
  case flag(Bool)
  case number(Double)
  case text(String)
  case list([JSONTree])
  case members([String: JSONTree])

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let flag = try? container.decode(Bool.self) {
      self = .flag(flag)
    } else if let number = try? container.decode(Double.self) {
      self = .number(number)
    } else if let text = try? container.decode(String.self) {
      self = .text(text)
    } else if let list = try? container.decode([JSONTree].self) {
      self = .list(list)
    } else {
      self = .members(try container.decode([String: JSONTree].self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .flag(let flag): try container.encode(flag)
    case .number(let number): try container.encode(number)
    case .text(let text): try container.encode(text)
    case .list(let list): try container.encode(list)
    case .members(let members): try container.encode(members)
    }
  }
}
