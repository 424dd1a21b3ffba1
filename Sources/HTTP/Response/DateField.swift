import Foundation

/// The `Date` field of one second, and the name of the field after it.
struct DateField {
  let second: Int64
  let line: [UInt8]

  init(secondsSinceEpoch: Int64) {
    second = secondsSinceEpoch
    line = Self.line(secondsSinceEpoch)
  }

  /// The field for this second.
  static var current: DateField { DateField(secondsSinceEpoch: Int64(time(nil))) }

  /// `Date: Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110 §5.6.7), and `X-Request-ID: ` on the next line, so that
  /// one copy writes both.
  static func line(_ secondsSinceEpoch: Int64) -> [UInt8] {
    let (days, secondOfDay) = secondsSinceEpoch.flooredDivision(by: 86_400)
    let date = CivilDate(daysSinceEpoch: days)
    // 1970-01-01 was a Thursday.
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][
      Int(days.flooredDivision(by: 7).remainder)]
    let month = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ][Int(date.month) - 1]
    let time = [secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60].map(twoDigits)
      .joined(separator: ":")
    return Array(
      "Date: \(weekday), \(twoDigits(date.day)) \(month) \(date.year) \(time) GMT\r\nX-Request-ID: ".utf8)
  }

  private static func twoDigits(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
}
