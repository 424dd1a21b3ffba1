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
