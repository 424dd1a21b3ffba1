import Foundation
import Logging
import Testing

@testable import receiptd

@Suite struct TextLogTests {
  @Test func `a value of the text log neither starts a line nor commands the terminal`() {
    let line = LogFormat.text.line(
      Date(timeIntervalSince1970: 0), .info, "answered",
      ["reason": .text("X\u{9b}31m\nY\u{202e}\u{1b}[2J"), "status": .integer(404)])
    #expect(
      String(decoding: line, as: UTF8.self)
        == "1970-01-01T00:00:00Z info answered reason=X?31m?Y??[2J status=404\n")
  }
}
