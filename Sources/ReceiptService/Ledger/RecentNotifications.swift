import FoundationEssentials
import Synchronization

/// The notifications that this server has seen committed of late.
///
/// What comes again is most often among them. It is a guess, since the database may have been set back to a time before, but
/// one that is worth a look for the notification alone, before its purchase is locked and all that it has is read for nothing.
/// Each notification has one place, which the next that has the same takes: so there is nothing to forget, and it never
/// takes more than 2 MB.
final class RecentNotifications: Sendable {
  private static let bits = 18
  private let places = Mutex([UInt64](repeating: 0, count: 1 << bits))

  func insert(_ notifications: some Sequence<UUID>) {
    places.withLock { places in
      for notification in notifications {
        let mark = Self.mark(notification)
        places[Self.place(mark)] = mark
      }
    }
  }

  /// Those of them that have been seen.
  func known(among notifications: some Sequence<UUID>) -> Set<UUID> {
    places.withLock { places in
      notifications.reduce(into: []) { known, notification in
        let mark = Self.mark(notification)
        if places[Self.place(mark)] == mark { known.insert(notification) }
      }
    }
  }

  /// 64 bits of the 122 that are random (RFC 9562 §5.4). That two share them, or one has those of an empty place, is a
  /// wrong guess like any other.
  private static func mark(_ notification: UUID) -> UInt64 {
    withUnsafeBytes(of: notification.uuid) {
      $0.loadUnaligned(as: UInt64.self) ^ $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }
  }

  /// By all bits of the mark (Fibonacci hashing: the golden ratio's part of 2^64).
  private static func place(_ mark: UInt64) -> Int {
    Int(truncatingIfNeeded: (mark &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - bits))
  }
}

/// Notifications that should be kept are not found: the database has been set back since they were, they have been
/// forgotten for their age, or they are kept under another date than they come with now.
struct NotificationsNotKept: Error {}
