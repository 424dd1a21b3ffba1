import JSON
import Subscriptions

extension FeatureValue: JSONWritable {
  /// Writes a bare JSON value.
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
  /// Writes an object; members are ordered by the bytes of their names.
  public func write(to json: inout JSONWriter) {
    json.object { json in
      for feature in ordered { json.member(named: feature.name, feature.value) }
    }
  }
}
