import Crypto
import Foundation
import Postgres

/// A one-time code with which a child's device joins a parent's: eight characters without look-alikes, as `7KQ4-M2XD`.
///
/// With 31 characters there are 8.5 × 10¹¹ codes. Of 1,000,000 guesses a day at an app with 1,000 codes open at any
/// time, one in 850 days finds a code.
package struct PairingCode: Sendable, Hashable {
  /// Without `0`, `1`, `I`, `L` and `O`.
  private static let alphabet = Array("23456789ABCDEFGHJKMNPQRSTUVWXYZ")
  private static let length = 8
  /// How long a code can be used, in seconds.
  package static let lifetime: TimeInterval = 600
  /// The most codes of a parent's device that are open. A further one ends the oldest.
  package static let mostOpen = 5

  private let characters: String

  /// A new code.
  package init() {
    var generator = SystemRandomNumberGenerator()
    characters = String(
      (0..<Self.length).map { _ in Self.alphabet[Int.random(in: 0..<Self.alphabet.count, using: &generator)] }
    )
  }

  /// A code as a person types it: in any case, with or without hyphens and spaces.
  /// - Returns: `nil` for a text that is no code.
  package init?(_ text: String) {
    guard text.utf8.count <= 64 else { return nil }
    let typed = text.uppercased().filter { $0 != "-" && $0 != " " }
    guard typed.count == Self.length, typed.allSatisfy(Self.alphabet.contains) else { return nil }
    characters = typed
  }

  /// The code as the app shows it.
  package var shown: String { "\(characters.prefix(4))-\(characters.suffix(4))" }

  /// The bytes for the column `code_hash`.
  var hash: [UInt8] { Array(SHA256.hash(data: Data(characters.utf8))) }
}

/// Statements on the table `pairing_codes`.
package enum PairingCodeRows {
  /// Adds a code, and ends the oldest open ones beyond ``PairingCode/mostOpen``. The transaction holds the device's
  /// lock.
  static func insert(_ code: PairingCode, of device: String, in bundleID: String, at instant: Date) -> [Query]
  {
    [
      """
      INSERT INTO pairing_codes (bundle_id, code_hash, device_id, created_at, expires_at)
      VALUES (\(bundleID), \(code.hash), \(device), \(instant), \(instant + PairingCode.lifetime))
      """,
      """
      DELETE FROM pairing_codes WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM pairing_codes
        WHERE bundle_id = \(bundleID) AND device_id = \(device) AND used_at IS NULL AND code_hash <> \(code.hash)
        ORDER BY created_at DESC OFFSET \(PairingCode.mostOpen - 1)))
      """,
    ]
  }

  /// The parent's device of a code (`device_id`), when it ends (`expires_at`), and whether it was used (`is_used`).
  static func select(_ code: PairingCode, in bundleID: String) -> Query {
    """
    SELECT device_id, expires_at, used_at IS NOT NULL AS is_used FROM pairing_codes
    WHERE bundle_id = \(bundleID) AND code_hash = \(code.hash)
    """
  }

  /// Uses up a code; no row if another child was faster. The transaction holds the parent's lock.
  static func use(_ code: PairingCode, in bundleID: String, at instant: Date) -> Query {
    """
    UPDATE pairing_codes SET used_at = \(instant)
    WHERE bundle_id = \(bundleID) AND code_hash = \(code.hash) AND used_at IS NULL RETURNING code_hash
    """
  }

  /// Deletes codes that ended before an instant.
  package static func delete(before oldest: Date, limit: Int) -> Query {
    """
    DELETE FROM pairing_codes WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM pairing_codes WHERE expires_at < \(oldest) ORDER BY expires_at LIMIT \(limit)))
    """
  }
}
