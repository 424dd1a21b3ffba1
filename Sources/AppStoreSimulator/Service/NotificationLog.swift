import Foundation

/// The notifications of a store, indexed by UUID.
struct NotificationLog: Sendable {
  private(set) var all: [SignedNotification] = []
  private var positions: [String: Int] = [:]

  subscript(uuid: String) -> SignedNotification? { positions[uuid].map { all[$0] } }

  mutating func append(_ notification: SignedNotification) {
    positions[notification.uuid] = all.count
    all.append(notification)
  }

  mutating func update(_ uuid: String, _ change: (inout SignedNotification) -> Void) {
    guard let position = positions[uuid] else { return }
    change(&all[position])
  }

  /// Returns the notifications that are due, the longest overdue first. They are no longer due then.
  mutating func takeDue(at now: Date) -> [String] {
    let due = all.compactMap { one in one.nextAttempt.map { (date: $0, uuid: one.uuid) } }
      .filter { $0.date <= now }.sorted { $0 < $1 }.map(\.uuid)
    for uuid in due { update(uuid) { $0.nextAttempt = nil } }
    return due
  }
}
