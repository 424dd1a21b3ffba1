/// A day of the Gregorian calendar in UTC, as an axis shows it.
package struct ChartDay: Sendable, Hashable, Comparable {
  package let year: Int
  package let month: Int
  package let day: Int

  /// The day that a text such as `2026-11-20` names, or `nil`.
  package init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-") else { return nil }
    func number(_ range: Range<Int>) -> Int? {
      var value = 0
      for byte in bytes[range] {
        guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        value = value * 10 + Int(byte - UInt8(ascii: "0"))
      }
      return value
    }
    guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10), year >= 1,
      (1...12).contains(month), day >= 1, day <= Self.days(ofMonth: month, year)
    else { return nil }
    (self.year, self.month, self.day) = (year, month, day)
  }

  /// The number of days since 1 January 1970.
  package var serial: Int {
    // Years begin with March, so that the leap day is the last one. 400 years have 146,097 days.
    let shifted = month > 2 ? year : year - 1
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func days(ofMonth month: Int, _ year: Int) -> Int {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// As `20 Nov 2026`.
  package var long: String { "\(day) \(Self.months[month - 1]) \(year)" }

  /// As `20 Nov`.
  package var short: String { "\(day) \(Self.months[month - 1])" }

  /// As `Nov 2026`.
  package var monthAndYear: String { "\(Self.months[month - 1]) \(year)" }

  package static func < (left: ChartDay, right: ChartDay) -> Bool { left.serial < right.serial }
}

/// How much time one place on an axis stands for.
package enum ChartGrain: String, Sendable, CaseIterable {
  case day, week, month

  /// The text of a place in a tooltip and a table.
  package func long(_ day: ChartDay) -> String {
    switch self {
    case .day: day.long
    case .week: "week of \(day.long)"
    case .month: day.monthAndYear
    }
  }
}

/// What the values of a chart are.
package enum ChartUnit: Sendable, Hashable {
  /// Whole things, such as subscriptions.
  case count
  /// An amount in a currency with this many decimals.
  case money(currency: String, digits: Int)
  /// A part of one: 0.25 is a quarter.
  case ratio

  /// The value for a reader: `1,234`, `1,234.50 USD`, `25.0 %`.
  package func text(_ value: Double) -> String {
    switch self {
    case .count: ChartNumber.grouped(value, digits: value == value.rounded() ? 0 : 1)
    case .money(let currency, let digits): "\(ChartNumber.grouped(value, digits: digits)) \(currency)"
    case .ratio: "\(ChartNumber.grouped(value * 100, digits: 1)) %"
    }
  }

  /// The value at a tick of an axis: `1.5k`, `25 %`.
  func tick(_ value: Double) -> String {
    switch self {
    case .count, .money: ChartNumber.compact(value)
    case .ratio: "\(ChartNumber.compact(value * 100)) %"
    }
  }
}

/// Numbers as text, without a locale.
package enum ChartNumber {
  /// The largest magnitude that is drawn. Doubles have whole numbers up to here, and every sum of a chart stays finite.
  static let limit = 1e15

  /// Digits in groups of three with a fixed number of decimals: `-1,234.50`. A minus sign is U+2212.
  package static func grouped(_ value: Double, digits: Int) -> String {
    guard value.isFinite, abs(value) <= limit else { return "–" }
    let digits = min(max(digits, 0), 3)
    let scale = [1, 10, 100, 1000][digits]
    let scaled = Int64((abs(value) * Double(scale)).rounded())
    let sign = value < 0 && scaled != 0 ? "\u{2212}" : ""
    var whole = ""
    for (place, digit) in String(scaled / Int64(scale)).reversed().enumerated() {
      if place > 0, place % 3 == 0 { whole.append(",") }
      whole.append(digit)
    }
    guard digits > 0 else { return sign + String(whole.reversed()) }
    let fraction = String(scaled % Int64(scale))
    return sign + String(whole.reversed()) + "." + String(repeating: "0", count: digits - fraction.utf8.count)
      + fraction
  }

  /// At most three digits and a suffix: `0.25`, `1.5k`, `20M`.
  static func compact(_ value: Double) -> String {
    let magnitude = abs(value)
    for (scale, suffix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] where magnitude >= scale {
      return shortened(value / scale) + suffix
    }
    return shortened(value)
  }

  /// At most three decimals, without zeros at the end.
  private static func shortened(_ value: Double) -> String {
    var text = grouped(value, digits: 3)
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text
  }
}
