import Foundation

/// The App Store's retry schedule as a value: it takes the outcome of every attempt and returns the due notifications.
struct RetryQueue: Sendable {
  /// The hours between attempts. The App Store gives up after the sixth attempt.
  static let hours: [Double] = [1, 12, 24, 48, 72]

  private let timeScale: TimeScale
  private var due: [String: Date] = [:]
  private var failures: [String: Int] = [:]

  init(timeScale: TimeScale) {
    self.timeScale = timeScale
  }

  /// The earliest due time.
  var nextDue: Date? { due.values.min() }

  /// The due time of a notification; nil if it has none.
  func due(_ uuid: String) -> Date? { due[uuid] }

  /// Records a failed attempt and schedules the next one, unless the refusal is final or was the last attempt.
  mutating func failed(_ uuid: String, at date: Date, outcome: SendOutcome) {
    let attempts = failures[uuid, default: 0]
    failures[uuid] = attempts + 1
    // Apple does not retry after 400.
    guard outcome.status != 400, attempts < Self.hours.count else { return due[uuid] = nil }
    due[uuid] = timeScale.date(date, addingHours: Self.hours[attempts])
  }

  /// Records a delivery.
  mutating func delivered(_ uuid: String) {
    due[uuid] = nil
    failures[uuid] = nil
  }

  /// Schedules a notification for `date`.
  mutating func putOff(_ uuid: String, until date: Date) {
    due[uuid] = date
  }

  /// Removes and returns the notifications due at `now`, the longest overdue first.
  mutating func takeDue(at now: Date) -> [String] {
    let taken = due.filter { $0.value <= now }.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map(\.key)
    for uuid in taken { due[uuid] = nil }
    return taken
  }
}
