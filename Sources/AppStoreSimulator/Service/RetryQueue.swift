import FoundationEssentials

/// Which notifications are to be sent later, and when: the App Store's schedule as a value. It is told of
/// every attempt and asked what is due.
struct RetryQueue: Sendable {
  /// Hours from one attempt to the next. After the sixth attempt the App Store gives up.
  static let hours: [Double] = [1, 12, 24, 48, 72]

  private let timeScale: TimeScale
  private var due: [String: Date] = [:]
  private var failures: [String: Int] = [:]

  init(timeScale: TimeScale) {
    self.timeScale = timeScale
  }

  /// When the next one is due.
  var nextDue: Date? { due.values.min() }

  /// When that notification is sent again; nil if it is not.
  func due(_ uuid: String) -> Date? { due[uuid] }

  /// An attempt was made that failed: the notification is due again after a while, unless it was refused
  /// for good or has been tried often enough.
  mutating func failed(_ uuid: String, at date: Date, outcome: SendOutcome) {
    let attempts = failures[uuid, default: 0]
    failures[uuid] = attempts + 1
    // Apple does not repeat what the server called a bad request.
    guard outcome.status != 400, attempts < Self.hours.count else { return due[uuid] = nil }
    due[uuid] = timeScale.date(date, addingHours: Self.hours[attempts])
  }

  /// It arrived, and is not sent again.
  mutating func delivered(_ uuid: String) {
    due[uuid] = nil
    failures[uuid] = nil
  }

  /// It is sent at `date` instead of now.
  mutating func putOff(_ uuid: String, until date: Date) {
    due[uuid] = date
  }

  /// What is due at `now`, the longest overdue first. It is for the caller to send it and to say how that
  /// went.
  mutating func takeDue(at now: Date) -> [String] {
    let taken = due.filter { $0.value <= now }.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map(\.key)
    for uuid in taken { due[uuid] = nil }
    return taken
  }
}
