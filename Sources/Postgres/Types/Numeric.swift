/// The binary format of `numeric`: the number of groups of four decimal digits, the power of 10,000 of the first group, the
/// sign, the number of digits after the point, and the groups, each in 16 bits (`numeric_send` in PostgreSQL's `numeric.c`).
enum Numeric {
  private static let negative: UInt16 = 0x4000
  private static let notANumber: UInt16 = 0xC000
  private static let positiveInfinity: UInt16 = 0xD000
  private static let negativeInfinity: UInt16 = 0xF000

  /// The number in the server's text format.
  static func text(of field: PostgresField) throws(FieldError) -> String {
    let bytes = field.bytes
    guard bytes.count >= 8 else { throw .malformed(.numeric) }
    let count = Int(bytes.bigEndian(at: 0, as: UInt16.self))
    let weight = Int(bytes.bigEndian(at: 2, as: Int16.self))
    let sign = bytes.bigEndian(at: 4, as: UInt16.self)
    let scale = Int(bytes.bigEndian(at: 6, as: UInt16.self))
    guard bytes.count == 8 + 2 * count else { throw .malformed(.numeric) }

    switch sign {
    case notANumber: return "NaN"
    case positiveInfinity: return "Infinity"
    case negativeInfinity: return "-Infinity"
    default: break
    }

    /// The group for 10,000 to the power of `power`; 0 if it was not sent.
    func group(_ power: Int) -> Int {
      let index = weight - power
      return index >= 0 && index < count ? Int(bytes.bigEndian(at: 8 + 2 * index, as: UInt16.self)) : 0
    }

    var text = sign == negative ? "-" : ""
    text += String(group(max(weight, 0)))
    for power in stride(from: weight - 1, through: 0, by: -1) { text += padded(group(power)) }
    if scale > 0 {
      var fraction = ""
      var power = -1
      while fraction.utf8.count < scale {
        fraction += padded(group(power))
        power -= 1
      }
      text += "." + fraction.prefix(scale)
    }
    return text
  }

  private static func padded(_ group: Int) -> String {
    let digits = String(group)
    return String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
  }
}
