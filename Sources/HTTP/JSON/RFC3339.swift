public import Foundation
public import JSON

/// Formats and parses times as in RFC 3339, in UTC with whole seconds: `2026-12-11T00:00:00Z`.
///
/// Foundation's formatter takes microseconds for each time, of which a response has several, and its parser accepts
/// more than RFC 3339.
public enum RFC3339 {
  /// The precision of a text.
  public enum Precision: Sendable {
    /// Whole seconds, because clients' `ISO8601DateFormatter` reads no fraction by default. Rounded down, so that the
    /// text is not later than the time.
    case seconds
    /// Milliseconds, omitted where they are zero: for logs.
    case milliseconds
  }

  /// The text of a time.
  ///
  /// A time outside the years 0000 to 9999 becomes the nearest time that RFC 3339 can write.
  public static func string(from date: Date, to precision: Precision = .seconds) -> String {
    withUTF8(of: date, to: precision) { String(decoding: $0, as: UTF8.self) }
  }

  /// Calls `body` with the text of a time, without making a string.
  static func withUTF8<Result>(
    of date: Date, to precision: Precision = .seconds, _ body: (UnsafeBufferPointer<UInt8>) -> Result
  ) -> Result {
    let milliseconds =
      switch precision {
      case .seconds: date.timeIntervalSince1970.rounded(.down) * 1000
      case .milliseconds: (date.timeIntervalSince1970 * 1000).rounded()
      }
    let last = precision == .seconds ? latest - 999 : latest
    let clamped = Int64(min(max(milliseconds, Double(earliest)), Double(last)))
    let (seconds, fraction) = clamped.flooredDivision(by: 1000)
    let (days, secondOfDay) = seconds.flooredDivision(by: 86_400)
    let day = CivilDate(daysSinceEpoch: days)

    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { output in
      var writer = DigitWriter(output: output)
      writer.write(day.year, digits: 4, then: "-")
      writer.write(day.month, digits: 2, then: "-")
      writer.write(day.day, digits: 2, then: "T")
      writer.write(secondOfDay / 3600, digits: 2, then: ":")
      writer.write(secondOfDay / 60 % 60, digits: 2, then: ":")
      writer.write(secondOfDay % 60, digits: 2, then: fraction == 0 ? "Z" : ".")
      if fraction != 0 { writer.write(fraction, digits: 3, then: "Z") }
      return body(UnsafeBufferPointer(rebasing: output[..<writer.count]))
    }
  }

  /// The time of the text, or nil unless the text is exactly as in RFC 3339 §5.6.
  ///
  /// Offsets are accepted, and fractions of 1 to 9 digits. `T` and `Z` must be upper case. The second 60 is refused,
  /// because a `Date` cannot represent a leap second.
  public static func date(from text: String) -> Date? {
    var reader = DigitReader(bytes: Array(text.utf8))
    guard let year = reader.read(digits: 4, then: "-"), let month = reader.read(digits: 2, then: "-"),
      let day = reader.read(digits: 2, then: "T"), let hour = reader.read(digits: 2, then: ":"),
      let minute = reader.read(digits: 2, then: ":"), let second = reader.read(digits: 2),
      let date = CivilDate(year: year, month: month, day: day), hour < 24, minute < 60, second < 60,
      let nanoseconds = reader.readFraction(), let offset = reader.readOffset(), reader.isAtEnd
    else { return nil }
    let seconds = date.daysSinceEpoch * 86_400 + hour * 3600 + minute * 60 + second - offset
    return Date(timeIntervalSince1970: Double(seconds) + Double(nanoseconds) / 1e9)
  }

  /// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z in milliseconds since 1970.
  private static let earliest: Int64 = -62_167_219_200_000
  private static let latest: Int64 = 253_402_300_799_999
}

/// Writes zero-padded numbers into a buffer.
private struct DigitWriter {
  let output: UnsafeMutableBufferPointer<UInt8>
  var count = 0

  mutating func write(_ value: Int64, digits: Int, then separator: Unicode.Scalar) {
    var rest = value
    for index in stride(from: count + digits - 1, through: count, by: -1) {
      output[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    }
    output[count + digits] = UInt8(ascii: separator)
    count += digits + 1
  }
}

/// Reads fixed-width numbers from the front of a text.
private struct DigitReader {
  let bytes: [UInt8]
  var position = 0

  var isAtEnd: Bool { position == bytes.count }

  mutating func read(digits: Int) -> Int64? {
    guard position + digits <= bytes.count else { return nil }
    var value: Int64 = 0
    for _ in 0..<digits {
      guard ASCII.isDigit(bytes[position]) else { return nil }
      value = value * 10 + Int64(bytes[position] - UInt8(ascii: "0"))
      position += 1
    }
    return value
  }

  mutating func read(digits: Int, then separator: Unicode.Scalar) -> Int64? {
    guard let value = read(digits: digits), take(separator) else { return nil }
    return value
  }

  /// The nanoseconds of `.123`; 0 without a fraction, nil if it has no digit or more than nine.
  mutating func readFraction() -> Int64? {
    guard take(".") else { return 0 }
    var value: Int64 = 0
    var digits = 0
    while position < bytes.count, ASCII.isDigit(bytes[position]) {
      guard digits < 9 else { return nil }
      value = value * 10 + Int64(bytes[position] - UInt8(ascii: "0"))
      digits += 1
      position += 1
    }
    guard digits > 0 else { return nil }
    for _ in digits..<9 { value *= 10 }
    return value
  }

  /// The seconds east of UTC of `Z`, `+02:00` or `-05:30`.
  mutating func readOffset() -> Int64? {
    if take("Z") { return 0 }
    let sign: Int64 = take("+") ? 1 : -1
    guard sign == 1 || take("-"), let hours = read(digits: 2, then: ":"), let minutes = read(digits: 2),
      hours < 24, minutes < 60
    else { return nil }
    return sign * (hours * 3600 + minutes * 60)
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
    position += 1
    return true
  }
}

extension Date: JSONWritable {
  /// Writes the time as in RFC 3339.
  public func write(to json: inout JSONWriter) {
    RFC3339.withUTF8(of: self) { json.string(utf8: $0) }
  }
}

/// A day of the proleptic Gregorian calendar.
///
/// The conversions count from 1 March, so that the leap day is the last of its year, and in eras of
/// 400 years, after which the calendar repeats (146,097 days).
struct CivilDate: Hashable {
  let year: Int64
  let month: Int64
  let day: Int64

  /// The given day, or nil if the calendar does not have it.
  init?(year: Int64, month: Int64, day: Int64) {
    guard (1...12).contains(month), day >= 1, day <= Self.days(in: month, of: year) else { return nil }
    self.year = year
    self.month = month
    self.day = day
  }

  /// The day that is this many days after 1970-01-01.
  init(daysSinceEpoch: Int64) {
    let (era, dayOfEra) = (daysSinceEpoch + Self.daysFromMarchOfYear0).flooredDivision(by: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
    month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  }

  /// The number of days since 1970-01-01.
  var daysSinceEpoch: Int64 {
    let (era, yearOfEra) = (month <= 2 ? year - 1 : year).flooredDivision(by: 400)
    let monthFromMarch = month > 2 ? month - 3 : month + 9
    let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - Self.daysFromMarchOfYear0
  }

  /// From 0000-03-01 to 1970-01-01.
  private static let daysFromMarchOfYear0: Int64 = 719_468

  private static func days(in month: Int64, of year: Int64) -> Int64 {
    switch month {
    case 2: year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }
}

extension Int64 {
  /// Quotient and remainder, with a remainder that is never negative.
  func flooredDivision(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
}
