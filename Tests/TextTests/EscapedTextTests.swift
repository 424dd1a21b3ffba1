import Testing

@testable import Text

@Suite struct EscapedTextTests {
  @Test func `markup and characters that show nothing are text in HTML, and others stay`() {
    #expect("<a href='x'>\"&amp;\"".escapedForHTML == "&lt;a href=&#39;x&#39;&gt;&quot;&amp;amp;&quot;")
    #expect("Zoë, 日本\nمرحبا 🎉".escapedForHTML == "Zoë, 日本\nمرحبا 🎉")
    for character in [
      "\0", "\r", "\t", "\u{7F}", "\u{85}", "\u{AD}", "\u{200B}", "\u{200E}", "\u{2028}", "\u{202E}",
      "\u{2066}",
      "\u{FEFF}", "\u{E0041}",
    ] {
      #expect("a\(character)b".escapedForHTML == "a?b")
    }
    // A quote with a combining character is one Character.
    for quote in ["\"\u{301}", "'\u{301}", "<\u{338}", "&\u{20DD}"] {
      #expect(!"\(quote)x".escapedForHTML.unicodeScalars.contains { "\"'<".unicodeScalars.contains($0) })
      #expect("\(quote)x".escapedForHTML.hasPrefix("&"))
    }
  }
}
