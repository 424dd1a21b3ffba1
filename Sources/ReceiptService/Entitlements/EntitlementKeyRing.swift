import Foundation

/// The signing keys of entitlement tokens: selects the key that signs at an instant, and the keys to publish.
///
/// A new key is published for ``lead`` before it signs, so that cached key sets contain it by then. The previous key stays
/// published until its last token has expired.
struct EntitlementKeyRing: Sendable {
  struct Entry: Sendable {
    var key: EntitlementKey
    /// When it begins to sign; it ends when the next key begins.
    var signsFrom: Date
  }

  /// How long a key is published before it signs: longer than a server needs to read it (``EntitlementKeyRefresh``)
  /// and a cache holds the key set (``KeySetResponse``).
  static let lead: TimeInterval = 3_600

  /// In the order in which they sign.
  private let entries: [Entry]
  /// How long a key stays published after the next one begins to sign, in seconds; `nil` for no end.
  private let retention: TimeInterval?

  /// Creates a key ring of the keys in the database.
  /// - Parameter lifetime: the longest lifetime of a token, in seconds.
  init(_ entries: [Entry], lifetime: TimeInterval) {
    self.entries = entries.sorted { ($0.signsFrom, $0.key.kid) < ($1.signsFrom, $1.key.kid) }
    // One more day for clock differences and for servers that read the new key late.
    retention = lifetime + 86_400
  }

  /// Creates a key ring of key files: the first one signs, all are published.
  init(files: [EntitlementKey]) {
    entries = files.reversed().map { Entry(key: $0, signsFrom: .distantPast) }
    retention = nil
  }

  /// The key that signs; `nil` without keys.
  func signing(at instant: Date) -> EntitlementKey? {
    // The clock of the server that created the first key may be ahead of this server's.
    (entries.last { $0.signsFrom <= instant } ?? entries.first)?.key
  }

  /// The keys to publish, newest first.
  func published(at instant: Date) -> [EntitlementKey] {
    entries.indices.reversed().filter { index in
      guard let retention, index + 1 < entries.count else { return true }
      return instant < entries[index + 1].signsFrom + retention
    }.map { entries[$0].key }
  }
}
