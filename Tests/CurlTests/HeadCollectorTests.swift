import HTTPTypes
import Testing

@testable import Curl

@Suite struct HeadCollectorTests {
  private func collect(_ lines: [String]) -> HeadCollector {
    var collector = HeadCollector()
    for line in lines {
      let bytes = Array((line + "\r\n").utf8)
      bytes.withUnsafeBytes { collector.take($0) }
    }
    return collector
  }

  @Test
  func `the head collector keeps the fields of the final response, not of interim responses or trailers`() {
    let head = collect([
      "HTTP/1.1 100 Continue", "X-Interim: 1", "", "HTTP/1.1 200 OK", "X-Final:  spaced \t", "Retry-After: 5",
      "Retry-After: 6", "", "X-Trailer: 1",
    ])
    #expect(head.fields[field("X-Final")] == "spaced")
    #expect(head.fields[values: .retryAfter] == ["5", "6"])
    #expect(head.fields.count == 3)
  }

  @Test func `the head collector ignores lines that are not fields`() {
    let head = collect(["HTTP/2 200", "no colon", "bad name: x", ": no name", "Good: yes", ""])
    #expect(head.fields.count == 1)
  }

  @Test func `the head collector refuses a head of more than 64 KiB`() {
    #expect(!collect(["HTTP/1.1 200 OK", "A: " + String(repeating: "x", count: 60_000)]).isTooLarge)
    #expect(collect(["HTTP/1.1 200 OK", "A: " + String(repeating: "x", count: 66_000)]).isTooLarge)
  }
}
