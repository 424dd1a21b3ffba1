import Foundation
import Logging
import Testing

@testable import receiptd

/// A log whose reader may be blocked.
@Suite(.timeLimit(.minutes(10))) struct LogWriterTests {
  /// A pipe with both of its ends.
  private final class Pipe: Sendable {
    let output: Int32
    let input: Int32

    init() throws {
      var ends: [Int32] = [0, 0]
      try #require(pipe(&ends) == 0)
      (output, input) = (ends[0], ends[1])
    }

    deinit {
      close(output)
      close(input)
    }

    /// Fills the pipe.
    /// - Returns: the number of bytes.
    func fill() -> Int {
      let flags = fcntl(input, F_GETFL)
      defer { _ = fcntl(input, F_SETFL, flags) }
      _ = fcntl(input, F_SETFL, flags | O_NONBLOCK)
      var count = 0
      while true {
        let written = Foundation.write(input, [UInt8](repeating: 0, count: 4_096), 4_096)
        guard written > 0 else { return count }
        count += written
      }
    }

    /// Waits for this many bytes.
    func read(_ count: Int) -> [UInt8] {
      var bytes: [UInt8] = []
      var buffer = [UInt8](repeating: 0, count: 65_536)
      while bytes.count < count {
        let got = Foundation.read(output, &buffer, min(buffer.count, count - bytes.count))
        guard got > 0 else { break }
        bytes += buffer.prefix(got)
      }
      return bytes
    }
  }

  private static func line(_ number: Int, length: Int = 100) -> [UInt8] {
    let text = "\(number) "
    return Array((text + String(repeating: "x", count: length - text.utf8.count - 1) + "\n").utf8)
  }

  @Test func `the log writer writes lines whole and in order`() throws {
    let pipe = try Pipe()
    let writer = LogWriter(descriptor: pipe.input)
    let lines = (0..<300).map { Self.line($0, length: 20 + $0 % 50) }
    for line in lines { writer.append(line) }
    #expect(writer.flush(within: .seconds(120)))
    let isWhole = pipe.read(lines.joined().count) == Array(lines.joined())
    #expect(isWhole)
    #expect(writer.lostLines == 0)
  }

  @Test func `a blocked log reader delays no caller and later gets the number of lost lines`() throws {
    let pipe = try Pipe()
    let filling = pipe.fill()
    let writer = LogWriter(descriptor: pipe.input, capacity: 10_000)
    for number in 0..<1_000 { writer.append(Self.line(number)) }
    #expect(writer.lostLines == 900)
    #expect(!writer.flush(within: .milliseconds(1)))

    _ = pipe.read(filling)
    let kept = pipe.read(10_000) == Array((0..<100).map { Self.line($0) }.joined())
    #expect(kept)
    #expect(writer.flush(within: .seconds(120)))
    let notice: (Int) -> [UInt8] = { Array("lost \($0)\n".utf8) }
    writer.append(Self.line(1_000), afterLoss: notice)
    writer.append(Self.line(1_001), afterLoss: notice)
    let rest = Array("lost 900\n".utf8) + Self.line(1_000) + Self.line(1_001)
    let isComplete = pipe.read(rest.count) == rest
    #expect(isComplete)
    #expect(writer.lostLines == 900)
  }

  @Test func `the log writer counts lines that it cannot write`() throws {
    signal(SIGPIPE, SIG_IGN)
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    close(ends[0])
    defer { close(ends[1]) }
    let writer = LogWriter(descriptor: ends[1])
    for number in 0..<10 { writer.append(Self.line(number)) }
    #expect(writer.flush(within: .seconds(120)))
    #expect(writer.lostLines == 10)
  }

  @Test func `the log writer loses no line on a descriptor that another process made non-blocking`()
    async throws
  {
    let pipe = try Pipe()
    #expect(fcntl(pipe.input, F_SETFL, O_NONBLOCK) == 0)
    let writer = LogWriter(descriptor: pipe.input)
    let lines = (0..<2_000).map { Self.line($0) }
    for line in lines { writer.append(line) }
    let isWhole = pipe.read(200_000) == Array(lines.joined())
    #expect(isWhole)
    #expect(writer.flush(within: .seconds(120)))
    #expect(writer.lostLines == 0)
  }
}

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
