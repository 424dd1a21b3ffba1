import FoundationEssentials

/// The keys of entitlement tokens: which one signs at an instant, and which are published.
///
/// A new key is published for ``lead`` before it signs, so that whoever remembers the key set knows it by then. The
/// one before stays published until the last token that it signed is over.
struct EntitlementKeyRing: Sendable {
  struct Entry: Sendable {
    var key: EntitlementKey
    /// From when on it signs, until a later one does.
    var signsFrom: Date
  }

  /// How long a key is published before it signs: longer than a server needs to notice it (``EntitlementKeyRefresh``)
  /// and a cache keeps the key set (``KeySetAnswer``).
  static let lead: TimeInterval = 3_600

  /// In the order in which they sign.
  private let entries: [Entry]
  /// How long a key stays published after another one signs, in seconds; `nil`: as long as it is here.
  private let retention: TimeInterval?

  /// Keys of the database.
  /// - Parameter lifetime: the longest life of a token, in seconds.
  init(_ entries: [Entry], lifetime: TimeInterval) {
    self.entries = entries.sorted { ($0.signsFrom, $0.key.kid) < ($1.signsFrom, $1.key.kid) }
    // A day for clocks that differ and for a server that noticed late.
    retention = lifetime + 86_400
  }

  /// Keys of files: the first signs, all are published.
  init(files: [EntitlementKey]) {
    entries = files.reversed().map { Entry(key: $0, signsFrom: .distantPast) }
    retention = nil
  }

  /// The key that signs; `nil` where there is none.
  func signing(at instant: Date) -> EntitlementKey? {
    // The very first one was made by a server whose clock may be ahead of this one's.
    (entries.last { $0.signsFrom <= instant } ?? entries.first)?.key
  }

  /// What is published: the latest first.
  func published(at instant: Date) -> [EntitlementKey] {
    entries.indices.reversed().filter { index in
      guard let retention, index + 1 < entries.count else { return true }
      return instant < entries[index + 1].signsFrom + retention
    }.map { entries[$0].key }
  }
}
