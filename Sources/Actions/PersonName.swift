import Foundation
import Text

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
    let isPlain = text.unicodeScalars.allSatisfy {
      $0.isLatinLetter || "0123456789 .-_'@+".unicodeScalars.contains($0)
    }
    guard isPlain, text.first?.isLetter == true, text.last != " ", text.count <= Self.maximumLength else {
      throw .invalid(
        "A name has 1 to \(Self.maximumLength) Latin letters, digits, spaces and any of . - _ ' @ +, and begins with a "
          + "letter. Letters of other scripts can look the same."
      )
    }
    guard !Self.isReserved(text) else {
      throw .invalid("'\(text)' is the name of a part of receiptd in the record; take another one.")
    }
    self.init(stored: text)
  }

  /// The name of a person who may have been added under other rules.
  init(stored name: String) {
    text = name.storable.precomposedStringWithCanonicalMapping
    // The capital letters of these two look the same.
    key = text.lowercased().replacing("ð", with: "đ")
  }

  /// Whether a record with this name would read like one of receiptd itself or of a machine.
  static func isReserved(_ name: String) -> Bool {
    // Without accents and the wide forms of letters.
    let letters = name.decomposedStringWithCompatibilityMapping.unicodeScalars.filter {
      $0.properties.generalCategory != .nonspacingMark && !$0.isInvisible
    }
    let key = String(String.UnicodeScalarView(letters)).lowercased()
    return reserved.contains(key) || key.hasPrefix("machine ")
  }
}

extension Unicode.Scalar {
  /// Whether this is a letter from A to Z, also with accents, or another common letter of the Latin script that looks
  /// like no other one.
  fileprivate var isLatinLetter: Bool {
    if "ßæœøłđðþÆŒØŁĐÐÞ".unicodeScalars.contains(self) { return true }
    guard let base = String(self).decomposedStringWithCanonicalMapping.unicodeScalars.first else {
      return false
    }
    return base.isASCII && base.properties.isAlphabetic
  }
}
