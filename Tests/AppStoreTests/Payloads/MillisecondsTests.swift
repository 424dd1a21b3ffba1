import Foundation
import Testing

@testable import AppStore

struct MillisecondsTests {
  private struct Dates: Codable, Equatable {
    @Milliseconds var always: Date
    @Milliseconds var sometimes: Date? = nil
  }

  private func read(_ json: String) throws -> Dates {
    try JSONDecoder().decode(Dates.self, from: Data(json.utf8))
  }

  @Test func `every millisecond of the years 0001 to 9999 survives a round trip`() throws {
    var random = SeededGenerator(state: 2)
    let edges: [Int64] = [
      Date.wireMilliseconds.lowerBound, Date.wireMilliseconds.upperBound, -1, 0, 1, 999, 1000, 1001,
      1_698_148_900_123,
    ]
    for _ in 0..<20_000 {
      let milliseconds = Int64.random(in: Date.wireMilliseconds, using: &random)
      #expect(Date(millisecondsSince1970: milliseconds)?.millisecondsSince1970 == milliseconds)
    }
    for milliseconds in edges {
      let dates = try read(#"{"always":\#(milliseconds),"sometimes":\#(milliseconds)}"#)
      #expect(dates.always == dates.sometimes)
      let written = try JSONSerialization.jsonObject(with: JSONEncoder().encode(dates)) as? [String: Int64]
      #expect(written == ["always": milliseconds, "sometimes": milliseconds])
    }
  }

  @Test func `a payload's dates do not depend on the coder's date strategy`() throws {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .iso8601
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    let dates = Dates(always: Date(timeIntervalSince1970: 1.5))
    #expect(String(decoding: try encoder.encode(dates), as: UTF8.self) == #"{"always":1500}"#)
    #expect(try decoder.decode(Dates.self, from: Data(#"{"always":1500}"#.utf8)) == dates)
  }

  @Test func `an optional date that is missing or null is nil and is not written`() throws {
    #expect(try read(#"{"always":0}"#).sometimes == nil)
    #expect(try read(#"{"always":0,"sometimes":null}"#).sometimes == nil)
    let written = String(decoding: try JSONEncoder().encode(read(#"{"always":0}"#)), as: UTF8.self)
    #expect(written == #"{"always":0}"#)
  }

  @Test(arguments: [
    "253402300800000", "-62135596800001", "9223372036854775807", "1e300", "1.5", #""0""#, "true", "[]",
  ])
  func `a value that is not a date of those years in whole milliseconds gives an error with its field`(
    value: String
  ) {
    for (json, field) in [
      (#"{"always":\#(value)}"#, "always"), (#"{"always":0,"sometimes":\#(value)}"#, "sometimes"),
    ] {
      do {
        _ = try read(json)
        Issue.record("\(json) was read")
      } catch DecodingError.dataCorrupted(let context) {
        #expect(context.codingPath.map(\.stringValue) == [field])
      } catch DecodingError.typeMismatch(_, let context) {
        #expect(context.codingPath.map(\.stringValue) == [field])
      } catch {
        Issue.record("\(error)")
      }
    }
  }

  @Test func `a date outside the years 0001 to 9999 cannot be encoded`() {
    #expect(throws: EncodingError.self) { try JSONEncoder().encode(Dates(always: .distantFuture * 1000)) }
    #expect(throws: EncodingError.self) {
      try JSONEncoder().encode(Dates(always: .distantPast, sometimes: Date(timeIntervalSince1970: .infinity)))
    }
  }
}

private func * (date: Date, factor: Double) -> Date {
  Date(timeIntervalSince1970: date.timeIntervalSince1970 * factor)
}
