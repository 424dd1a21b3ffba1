/// The labels of a series as they are written, without the braces: the order in which they were given makes no other
/// series.
struct LabelSet: Hashable, Comparable, Sendable {
  let text: String
  private let names: [String]

  init(_ dimensions: [(String, String)]) {
    let labels = dimensions.map { (name: MetricName.sanitizedLabel($0.0), value: $0.1) }
      .sorted { $0.name < $1.name }
    names = labels.map(\.name)
    text = labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",")
  }

  /// The series that takes what is too much.
  var overflowing: LabelSet { LabelSet(names.map { ($0, "overflow") }) }

  static func < (left: LabelSet, right: LabelSet) -> Bool { left.text < right.text }

  /// A backslash, a quote and a line's end must not end the value.
  private static func escaped(_ value: String) -> String {
    guard value.utf8.contains(where: { $0 == 0x5C || $0 == 0x22 || $0 == 0x0A }) else { return value }
    var bytes: [UInt8] = []
    for byte in value.utf8 {
      switch byte {
      case 0x5C: bytes += [0x5C, 0x5C]
      case 0x22: bytes += [0x5C, 0x22]
      case 0x0A: bytes += [0x5C, 0x6E]
      default: bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// What a name may be made of. Labels of swift-metrics often have dots in them.
enum MetricName {
  /// `[a-zA-Z_:][a-zA-Z0-9_:]*`
  static func sanitized(_ name: String) -> String { sanitized(name, allowingColon: true) }

  /// `[a-zA-Z_][a-zA-Z0-9_]*`; `le` belongs to histograms.
  static func sanitizedLabel(_ name: String) -> String {
    let sanitized = sanitized(name, allowingColon: false)
    return sanitized == "le" ? "exported_le" : sanitized
  }

  private static func sanitized(_ name: String, allowingColon: Bool) -> String {
    var bytes: [UInt8] = []
    for byte in name.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"):
        bytes.append(byte)
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        if bytes.isEmpty { bytes.append(UInt8(ascii: "_")) }
        bytes.append(byte)
      case UInt8(ascii: ":") where allowingColon: bytes.append(byte)
      default: bytes.append(UInt8(ascii: "_"))
      }
    }
    return bytes.isEmpty ? "_" : String(decoding: bytes, as: UTF8.self)
  }
}
