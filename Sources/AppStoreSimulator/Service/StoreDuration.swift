import Foundation

/// A duration of the store's time in ISO 8601: `P1D`, `P1M`, `P1DT12H`, `PT90S`.
///
/// A shortened month of the store shortens all units.
struct StoreDuration: Hashable, Sendable {
  private(set) var periods: [StorePeriod] = []
  private(set) var hours = 0
  private(set) var minutes = 0
  private(set) var seconds = 0

  /// Parses ISO 8601; nil for other texts.
  init?(_ text: String) {
    var rest = text.utf8[...]
    guard rest.popFirst() == UInt8(ascii: "P"), !rest.isEmpty else { return nil }
    var isTime = false
    // The designators that may still follow, in order.
    var designators = Array("YMWD".utf8)[...]
    while let first = rest.first {
      if first == UInt8(ascii: "T"), !isTime {
        isTime = true
        designators = Array("HMS".utf8)[...]
        rest.removeFirst()
        guard !rest.isEmpty else { return nil }
        continue
      }
      guard let count = Self.number(&rest), let unit = rest.popFirst(),
        let position = designators.firstIndex(of: unit)
      else { return nil }
      designators = designators[(position + 1)...]
      switch (isTime, unit) {
      case (true, UInt8(ascii: "H")): hours = count
      case (true, UInt8(ascii: "M")): minutes = count
      case (true, _): seconds = count
      case (false, UInt8(ascii: "Y")): periods.append(StorePeriod(count, .year))
      case (false, UInt8(ascii: "M")): periods.append(StorePeriod(count, .month))
      case (false, UInt8(ascii: "W")): periods.append(StorePeriod(count, .week))
      case (false, _): periods.append(StorePeriod(count, .day))
      }
    }
  }

  private static func number(_ rest: inout Substring.UTF8View) -> Int? {
    var number: Int?
    while let digit = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) {
      guard (number ?? 0) < 1_000_000 else { return nil }
      number = (number ?? 0) * 10 + Int(digit - UInt8(ascii: "0"))
      rest.removeFirst()
    }
    return number
  }
}

extension TimeScale {
  /// `duration` after `date`, to the millisecond.
  func date(_ date: Date, adding duration: StoreDuration) -> Date {
    let day = duration.periods.reduce(date) { self.date($0, adding: $1) }
    let hours =
      Double(duration.hours) + Double(duration.minutes) / 60 + Double(duration.seconds) / 3600
    return self.date(day, addingHours: hours)
  }

  /// A number of hours after `date`; 720 hours are a shortened month.
  func date(_ date: Date, addingHours hours: Double) -> Date {
    date.addingTimeInterval(hours * (monthSeconds.map { $0 / 720 } ?? 3600)).wholeMilliseconds
  }
}
