/// The labels of a series in text format, without braces. They are sorted, so that their order makes no difference.
struct LabelSet: Hashable, Comparable, Sendable {
  let text: String
  private let names: [String]

  init(_ dimensions: [(String, String)]) {
    let labels = dimensions.map { (name: MetricName.sanitizedLabel($0.0), value: $0.1) }
      .sorted { $0.name < $1.name }
    names = labels.map(\.name)
    text = labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",")
  }

  /// The labels of the overflow series.
  var overflowing: LabelSet { LabelSet(names.map { ($0, "overflow") }) }

  static func < (left: LabelSet, right: LabelSet) -> Bool { left.text < right.text }

  /// Escapes backslashes, quotation marks and line feeds.
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

/// Converts names to the characters that Prometheus allows. Labels of swift-metrics often have dots.
enum MetricName {
  /// `[a-zA-Z_:][a-zA-Z0-9_:]*`
  static func sanitized(_ name: String) -> String { sanitized(name, allowingColon: true) }

  /// `[a-zA-Z_][a-zA-Z0-9_]*`; `le` is reserved for histograms.
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
