import Testing
import Text

/// Outputs for people have at most 80 columns.
@Suite struct TerminalWidthTests {
  @Test func `a long line is broken at spaces and its rest is indented`() {
    let text = "  " + Array(repeating: "receipt", count: 25).joined(separator: " ")
    let lines = text.wrappedForTerminal().split(separator: "\n")
    #expect(lines.count == 3)
    #expect(lines.allSatisfy { $0.count <= 80 })
    #expect(lines[0].hasPrefix("  receipt") && lines[1].hasPrefix("      receipt"))
    #expect(text.split(separator: " ") == lines.joined(separator: " ").split(separator: " "))
  }

  @Test(arguments: [
    "", "a line", "two\nlines", "  an indent\n\nand an empty line", String(repeating: "x", count: 80),
  ])
  func `a text that fits stays as it is`(text: String) {
    #expect(text.wrappedForTerminal() == text)
  }
}
