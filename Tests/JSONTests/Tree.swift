import Foundation
import Platform

@testable import JSON

/// Any JSON value, for the JSON writer and for Foundation's encoder.
indirect enum Tree: Hashable, Codable, JSONWritable {
  case null
  case flag(Bool)
  case whole(Int64)
  case number(Double)
  case text(String)
  case list([Tree])
  case members([String: Tree])

  static func random(depth: Int, using random: inout SplitMix64) -> Tree {
    switch Int.random(in: 0..<(depth > 0 ? 7 : 5), using: &random) {
    case 0: .null
    case 1: .flag(.random(using: &random))
    case 2:
      .whole(
        [.min, .max, 0, -1, 9, 10, Int64.random(in: .min ... .max, using: &random)].pick(using: &random))
    case 3: .number([0.5, -1e-7, 1e300, 123.456, 5, 1e21].pick(using: &random))
    case 4: .text(.random(using: &random))
    case 5:
      .list(
        (0..<Int.random(in: 0..<4, using: &random)).map { _ in
          Tree.random(depth: depth - 1, using: &random)
        })
    default:
      .members(
        Dictionary(
          (0..<Int.random(in: 0..<4, using: &random)).map { _ in
            (String.random(using: &random), Tree.random(depth: depth - 1, using: &random))
          }, uniquingKeysWith: { first, _ in first }))
    }
  }

  func write(to json: inout JSONWriter) {
    switch self {
    case .null: json.null()
    case .flag(let flag): flag.write(to: &json)
    case .whole(let number): number.write(to: &json)
    case .number(let number): number.write(to: &json)
    case .text(let text): text.write(to: &json)
    case .list(let list): list.write(to: &json)
    case .members(let members): members.write(to: &json)
    }
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let flag = try? container.decode(Bool.self) {
      self = .flag(flag)
    } else if let number = try? container.decode(Int64.self) {
      self = .whole(number)
    } else if let number = try? container.decode(Double.self) {
      self = .number(number)
    } else if let text = try? container.decode(String.self) {
      self = .text(text)
    } else if let list = try? container.decode([Tree].self) {
      self = .list(list)
    } else {
      self = .members(try container.decode([String: Tree].self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .flag(let flag): try container.encode(flag)
    case .whole(let number): try container.encode(number)
    case .number(let number): try container.encode(number)
    case .text(let text): try container.encode(text)
    case .list(let list): try container.encode(list)
    case .members(let members): try container.encode(members)
    }
  }
}

extension String {
  /// Up to twenty characters, many of which are special in JSON or UTF-8.
  static func random(using random: inout SplitMix64) -> String {
    var text = String.UnicodeScalarView()
    for _ in 0..<Int.random(in: 0..<20, using: &random) {
      let scalar: UInt32 =
        switch Int.random(in: 0..<6, using: &random) {
        case 0: UInt32.random(in: 0..<0x20, using: &random)
        case 1:
          [0x22, 0x5C, 0x2F, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x2028, 0x10000, 0x10FFFF].pick(using: &random)
        case 2: UInt32.random(in: 0x10000...0x10FFFF, using: &random)
        case 3: UInt32.random(in: 0x80..<0xD800, using: &random)
        default: UInt32.random(in: 0x20..<0x7F, using: &random)
        }
      if let scalar = Unicode.Scalar(scalar) { text.append(scalar) }
    }
    return String(text)
  }
}

extension Array {
  func pick(using random: inout SplitMix64) -> Element { self[Int.random(in: indices, using: &random)] }
}
