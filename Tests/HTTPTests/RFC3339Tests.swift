import Foundation
import Testing

@testable import HTTP

@Suite struct RFC3339Tests {
  @Test(arguments: [
    (0, "1970-01-01T00:00:00Z"), (1_797_033_600, "2026-12-12T00:00:00Z"), (0.001, "1970-01-01T00:00:00Z"),
    (0.999_999, "1970-01-01T00:00:00Z"), (1_797_033_599.999_999, "2026-12-11T23:59:59Z"),
    (-0.001, "1969-12-31T23:59:59Z"), (-1, "1969-12-31T23:59:59Z"),
    (951_782_400, "2000-02-29T00:00:00Z"), (4_107_542_400, "2100-03-01T00:00:00Z"),
    (-62_135_596_800, "0001-01-01T00:00:00Z"), (253_402_300_799.9, "9999-12-31T23:59:59Z"),
    (1e15, "9999-12-31T23:59:59Z"), (-1e15, "0000-01-01T00:00:00Z"),
  ])
  func `RFC3339 writes a time in UTC with whole seconds, rounded down`(seconds: Double, text: String) {
    #expect(RFC3339.string(from: Date(timeIntervalSince1970: seconds)) == text)
  }

  @Test(arguments: [
    (0, "1970-01-01T00:00:00Z"), (0.001, "1970-01-01T00:00:00.001Z"), (0.9996, "1970-01-01T00:00:01Z"),
    (-0.001, "1969-12-31T23:59:59.999Z"), (1e15, "9999-12-31T23:59:59.999Z"),
    (-1e15, "0000-01-01T00:00:00Z"),
  ])
  func `RFC3339 writes milliseconds only if they are not zero`(seconds: Double, text: String) {
    #expect(RFC3339.string(from: Date(timeIntervalSince1970: seconds), to: .milliseconds) == text)
  }

  @Test
  func `a random time survives a round trip in milliseconds and in seconds, and Foundation formats it alike`()
  {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let milliseconds = Int64.random(in: -62_135_596_800_000...253_402_300_799_999, using: &random)
      let date = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
      let text = RFC3339.string(from: date, to: .milliseconds)
      let parsed = RFC3339.date(from: text)
      #expect(parsed.map { ($0.timeIntervalSince1970 * 1000).rounded() } == Double(milliseconds), "\(text)")
      let whole = RFC3339.date(from: RFC3339.string(from: date))
      #expect(whole?.timeIntervalSince1970 == date.timeIntervalSince1970.rounded(.down), "\(text)")
    }
    for _ in 0..<2000 {
      let seconds = Int64.random(in: -2_000_000_000...32_000_000_000, using: &random)
      let date = Date(timeIntervalSince1970: Double(seconds))
      #expect(RFC3339.string(from: date) == date.formatted(.iso8601))
    }
  }

  @Test func `the civil dates of 800 years follow one another`() {
    var previous = CivilDate(daysSinceEpoch: -150_000)
    for day in Int64(-149_999)...150_000 {
      let date = CivilDate(daysSinceEpoch: day)
      let isNextDay =
        date.year == previous.year && date.month == previous.month && date.day == previous.day + 1
      let isNextMonth = date.day == 1 && date.year == previous.year && date.month == previous.month + 1
      let isNextYear =
        date.day == 1 && date.month == 1 && previous.month == 12 && date.year == previous.year + 1
      if !isNextDay, !isNextMonth, !isNextYear { Issue.record("\(date) does not follow \(previous)") }
      if date.daysSinceEpoch != day { Issue.record("\(date) is not day \(day)") }
      previous = date
    }
  }

  @Test(arguments: [
    ("2026-12-11T00:00:00Z", 1_796_947_200.0), ("2026-12-11T02:00:00+02:00", 1_796_947_200),
    ("2026-12-10T18:30:00-05:30", 1_796_947_200), ("1970-01-01T00:00:00.5Z", 0.5),
    ("1970-01-01T00:00:00.123456789Z", 0.123456789), ("1970-01-01T00:00:00.000Z", 0),
    ("2024-02-29T00:00:00Z", 1_709_164_800),
  ])
  func `every form of RFC 3339 is accepted`(text: String, seconds: Double) {
    // A `Date` counts from 2001, so it is less precise for distant times.
    let parsed = RFC3339.date(from: text)?.timeIntervalSince1970
    #expect(parsed.map { abs($0 - seconds) < 1e-6 } == true)
  }

  @Test(arguments: [
    "", "2026-12-11", "2026-12-11T00:00:00", "2026-12-11 00:00:00Z", "2026-12-11t00:00:00z",
    "2026-12-11T00:00Z", "2026-12-11T24:00:00Z", "2026-12-11T00:60:00Z", "2026-12-11T23:59:60Z",
    "2026-13-11T00:00:00Z", "2026-00-11T00:00:00Z", "2026-12-32T00:00:00Z", "2026-12-00T00:00:00Z",
    "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-12-11T00:00:00.Z",
    "2026-12-11T00:00:00.1234567890Z",
    "2026-12-11T00:00:00,5Z", "2026-12-11T00:00:00+0200", "2026-12-11T00:00:00+24:00",
    "2026-12-11T00:00:00+02:60", "2026-12-11T00:00:00ZZ", " 2026-12-11T00:00:00Z", "2026-12-11T00:00:00Z ",
    "+026-12-11T00:00:00Z", "2026-1-11T00:00:00Z", "2026-12-11T0\u{0660}:00:00Z", "20261211T000000Z",
  ])
  func `a text that is not an RFC 3339 time is refused`(text: String) {
    #expect(RFC3339.date(from: text) == nil)
  }
}
