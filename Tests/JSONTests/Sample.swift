@testable import JSON

/// A value with members of every kind, which the reader and Foundation's decoder can read.
struct Sample: Equatable, Decodable, JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable { case text, number, small, flag, names, inner, inners }

  struct Inner: Equatable, Decodable, JSONReadable {
    enum CodingKeys: String, CodingKey, CaseIterable { case count, label }

    var count: Int64
    var label: String?

    private static let names = JSONNames<CodingKeys>()

    init(reading json: inout JSONReader) throws(JSONFailure) {
      count = 0
      var members = try json.members(of: Self.names)
      while let member = try members.next(in: &json) {
        switch member {
        case .count: count = try json.read()
        case .label: label = try json.readOrNull()
        }
      }
      try members.require(.count)
    }
  }

  var text: String
  var number: Int64
  var small: Int32?
  var flag: Bool?
  var names: [String]?
  var inner: Inner?
  var inners: [Inner]?

  private static let names = JSONNames<CodingKeys>()

  init(reading json: inout JSONReader) throws(JSONFailure) {
    text = ""
    number = 0
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .text: text = try json.read()
      case .number: number = try json.read()
      case .small: small = try json.readOrNull()
      case .flag: flag = try json.readOrNull()
      case .names: names = try json.readOrNull()
      case .inner: inner = try json.readOrNull()
      case .inners: inners = try json.readOrNull()
      }
    }
    try members.require(.text, .number)
  }

  static func read(_ json: String) throws(JSONFailure) -> Sample {
    try JSONReader.read(from: Array(json.utf8), maximumDepth: 8)
  }
}
