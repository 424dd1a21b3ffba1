import Foundation

/// The name of a person, as the record of support's actions shows it.
struct PersonName: Hashable, Sendable {
  let text: String
  /// The value of the column `name_key`.
  let key: String

  static let maximumLength = 60
  /// The names that records have for receiptd's own rules and for machines, and words that would read like one.
  private static let reserved: Set = [
    "adopt", "app-store", "grandfather", "machine", "policy", "receiptd", "support-token",
  ]

  /// - Throws: ``SupportRefusal`` `invalid`.
  init(_ name: String) throws(SupportRefusal) {
    let text = name.precomposedStringWithCanonicalMapping
    let isPlain = text.allSatisfy { $0.isLetter || $0.isNumber || " .-_'@+".contains($0) }
    guard isPlain, text.first?.isLetter == true, text.last != " ", text.count <= Self.maximumLength else {
      throw .invalid(
        "A name has 1 to \(Self.maximumLength) letters, digits, spaces and any of . - _ ' @ +, and begins with a letter."
      )
    }
    let key = text.lowercased()
    guard !Self.isReserved(text) else {
      throw .invalid("'\(text)' is the name of a part of receiptd in the record; take another one.")
    }
    self.text = text
    self.key = key
  }

  /// Whether a record with this name would read like one of receiptd itself or of a machine.
  static func isReserved(_ name: String) -> Bool {
    let key = name.lowercased()
    return reserved.contains(key) || key.hasPrefix("machine ")
  }
}
