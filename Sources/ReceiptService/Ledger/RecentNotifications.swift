import FoundationEssentials
import Synchronization

/// A cache of notifications that this server has recently committed.
///
/// A repeated notification costs one lookup by uuid: its purchase is neither locked nor read. The cache may be wrong, since
/// the database may have been restored to an earlier state. Each notification has one slot, which the next one with the
/// same slot overwrites, so the cache never takes more than 2 MB.
final class RecentNotifications: Sendable {
  private static let bits = 18
  private let slots = Mutex([UInt64](repeating: 0, count: 1 << bits))

  func insert(_ notifications: some Sequence<UUID>) {
    slots.withLock { slots in
      for notification in notifications {
        let mark = Self.mark(notification)
        slots[Self.slot(of: mark)] = mark
      }
    }
  }

  /// The notifications that the cache has.
  func known(among notifications: some Sequence<UUID>) -> Set<UUID> {
    slots.withLock { slots in
      notifications.reduce(into: []) { known, notification in
        let mark = Self.mark(notification)
        if slots[Self.slot(of: mark)] == mark { known.insert(notification) }
      }
    }
  }

  /// 64 of the 122 random bits of a uuid (RFC 9562 §5.4). A collision is a wrong guess like any other.
  private static func mark(_ notification: UUID) -> UInt64 {
    withUnsafeBytes(of: notification.uuid) {
      $0.loadUnaligned(as: UInt64.self) ^ $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }
  }

  /// Fibonacci hashing.
  private static func slot(of mark: UInt64) -> Int {
    Int(truncatingIfNeeded: (mark &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - bits))
  }
}

/// Notifications that ``RecentNotifications`` has are missing: the database was restored, or retention has deleted them.
struct NotificationsNotKept: Error {}
