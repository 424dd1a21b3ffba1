import JSON
import Subscriptions

extension FeatureValue: JSONWritable {
  /// A bare value.
  public func write(to json: inout JSONWriter) {
    switch self {
    case .flag(let value): json.boolean(value)
    case .count(let value): json.integer(Int64(value))
    case .amount(let value): json.number(value)
    case .word(let value): json.string(value)
    case .unlimited: json.null()
    }
  }
}

extension Features: JSONWritable {
  /// An object, with its members in the order of their names' bytes.
  public func write(to json: inout JSONWriter) {
    json.object { json in
      for feature in ordered { json.member(named: feature.name, feature.value) }
    }
  }
}
