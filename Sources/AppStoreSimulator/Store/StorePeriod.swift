import Foundation

/// The length of a subscription period or an offer: a number of calendar units in ISO 8601 (`P1M`), the form of Apple's
/// `offerPeriod`.
public struct StorePeriod: Hashable, Sendable {
  /// The units that App Store Connect offers.
  public enum Unit: Character, Sendable {
    case day = "D"
    case week = "W"
    case month = "M"
    case year = "Y"
  }

  /// The number of units.
  public var count: Int
  /// The unit.
  public var unit: Unit

  /// Makes a period.
  public init(_ count: Int, _ unit: Unit) {
    self.count = count
    self.unit = unit
  }

  /// A week.
  public static let week = StorePeriod(1, .week)
  /// A month.
  public static let month = StorePeriod(1, .month)
  /// A year.
  public static let year = StorePeriod(1, .year)

  /// Parses a duration of one unit, such as `P3D`, `P1W`, `P6M` or `P1Y`; nil for other texts.
  public init?(_ text: String) {
    guard text.count >= 3, text.first == "P", let last = text.last, let unit = Unit(rawValue: last)
    else { return nil }
    var count = 0
    for digit in text.utf8.dropFirst().dropLast() {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit), count < 1_000 else { return nil }
      count = count * 10 + Int(digit - UInt8(ascii: "0"))
    }
    guard count > 0 else { return nil }
    self.init(count, unit)
  }

  /// The period in ISO 8601.
  public var text: String { "P\(count)\(unit.rawValue)" }
}

extension StorePeriod: Codable {
  /// Decodes ISO 8601.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let text = try container.decode(String.self)
    guard let period = StorePeriod(text) else {
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "\"\(text)\" is not a period such as P1M or P1Y")
    }
    self = period
  }

  /// Encodes as ISO 8601.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(text)
  }
}

/// The length of a month in the simulated store.
///
/// Apple's sandbox shortens periods so that a tester sees a renewal within minutes. Here a month can have any length; a
/// year has twelve months, and a month thirty days.
public struct TimeScale: Hashable, Sendable {
  /// The length of a month in seconds; nil for the real calendar.
  public let monthSeconds: Double?

  /// The real calendar (Gregorian, UTC).
  public static let calendar = TimeScale(monthSeconds: nil)

  /// Makes a time scale; nil for the real calendar.
  public init(monthSeconds: Double?) {
    self.monthSeconds = monthSeconds
  }

  /// `period` after `date`, to the millisecond.
  func date(_ date: Date, adding period: StorePeriod) -> Date {
    guard let monthSeconds else { return calendarDate(date, adding: period) }
    let months: Double =
      switch period.unit {
      case .day: 1.0 / 30
      case .week: 7.0 / 30
      case .month: 1
      case .year: 12
      }
    return date.addingTimeInterval(Double(period.count) * months * monthSeconds).wholeMilliseconds
  }

  /// A number of hours after `date`; 720 hours are a shortened month.
  func date(_ date: Date, addingHours hours: Double) -> Date {
    date.addingTimeInterval(hours * (monthSeconds.map { $0 / 720 } ?? 3600)).wholeMilliseconds
  }

  private static let gregorian: Calendar = {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = .gmt
    return calendar
  }()

  private func calendarDate(_ date: Date, adding period: StorePeriod) -> Date {
    let (component, count): (Calendar.Component, Int) =
      switch period.unit {
      case .day: (.day, period.count)
      case .week: (.day, period.count * 7)
      case .month: (.month, period.count)
      case .year: (.year, period.count)
      }
    // Adding a bounded number of these units to a Gregorian date always succeeds.
    return (Self.gregorian.date(byAdding: component, value: count, to: date) ?? date).wholeMilliseconds
  }
}

extension Date {
  /// The date rounded to whole milliseconds, the precision of App Store dates.
  var wholeMilliseconds: Date {
    Date(timeIntervalSince1970: (timeIntervalSince1970 * 1000).rounded() / 1000)
  }
}
