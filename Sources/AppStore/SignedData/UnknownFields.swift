import FoundationEssentials

extension Signed {
  /// The fields of the payload that its type does not know, as sorted paths: `newField`, `data.newField`.
  /// Elements of an array are taken together: `items.newField`.
  ///
  /// For finding out that Apple has added something; the values stay in `payloadBytes`. Found by comparing
  /// what Apple wrote with what the type writes, so it costs a few times what decoding did.
  public func unknownFields() -> [String] {
    guard let written = try? JSONDecoder().decode(FieldTree.self, from: Data(payloadBytes)),
      let known = try? JSONDecoder().decode(FieldTree.self, from: JSONEncoder().encode(payload))
    else { return [] }
    return written.paths(missingFrom: known).sorted()
  }
}

/// The names in a JSON value, without the values. Null counts as absent.
private struct FieldTree: Decodable {
  var fields: [String: FieldTree] = [:]

  private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init() {}

  init(from decoder: any Decoder) throws {
    if let object = try? decoder.container(keyedBy: Name.self) {
      for name in object.allKeys where try !object.decodeNil(forKey: name) {
        fields[name.stringValue] = try object.decode(FieldTree.self, forKey: name)
      }
    } else if var array = try? decoder.unkeyedContainer() {
      while !array.isAtEnd { merge(try array.decode(FieldTree.self)) }
    }
  }

  private mutating func merge(_ other: FieldTree) {
    for (name, tree) in other.fields { fields[name, default: FieldTree()].merge(tree) }
  }

  func paths(missingFrom known: FieldTree) -> [String] {
    fields.flatMap { name, tree in
      guard let counterpart = known.fields[name] else { return [name] }
      return tree.paths(missingFrom: counterpart).map { "\(name).\($0)" }
    }
  }
}
