import Foundation
import Testing

@testable import receiptd

/// What is on its way to a reader who may stand still.
@Suite(.timeLimit(.minutes(10))) struct LogWriterTests {
  /// A pipe and what comes out of it.
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

    /// Writes as much as there is room for.
    /// - Returns: how many bytes these are.
    func fill() -> Int {
      let flags = fcntl(input, F_GETFL)
      defer { _ = fcntl(input, F_SETFL, flags) }
      _ = fcntl(input, F_SETFL, flags | O_NONBLOCK)
      var count = 0
      while true {
        let written = Glibc.write(input, [UInt8](repeating: 0, count: 4_096), 4_096)
        guard written > 0 else { return count }
        count += written
      }
    }

    /// Waits for so many bytes.
    func read(_ count: Int) -> [UInt8] {
      var bytes: [UInt8] = []
      var buffer = [UInt8](repeating: 0, count: 65_536)
      while bytes.count < count {
        let got = Glibc.read(output, &buffer, min(buffer.count, count - bytes.count))
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

  @Test func `lines come out whole and in order`() throws {
    let pipe = try Pipe()
    let writer = LogWriter(descriptor: pipe.input)
    let lines = (0..<300).map { Self.line($0, length: 20 + $0 % 50) }
    for line in lines { writer.write(line) }
    #expect(writer.flush(within: .seconds(120)))
    #expect(writer.isEmpty)
    let isWhole = pipe.read(lines.joined().count) == Array(lines.joined())
    #expect(isWhole)
    #expect(writer.lostLines == 0)
  }

  @Test func `nobody waits for a reader who stands still, and he hears how much he missed`() throws {
    let pipe = try Pipe()
    let filling = pipe.fill()
    let writer = LogWriter(descriptor: pipe.input, room: 10_000)
    for number in 0..<1_000 { writer.write(Self.line(number)) }
    #expect(writer.lostLines == 900)
    #expect(!writer.flush(within: .milliseconds(1)))
    #expect(!writer.isEmpty)

    _ = pipe.read(filling)
    let kept = pipe.read(10_000) == Array((0..<100).map { Self.line($0) }.joined())
    #expect(kept)
    #expect(writer.flush(within: .seconds(120)))
    let notice: (Int) -> [UInt8] = { Array("lost \($0)\n".utf8) }
    writer.write(Self.line(1_000), afterLoss: notice)
    writer.write(Self.line(1_001), afterLoss: notice)
    let rest = Array("lost 900\n".utf8) + Self.line(1_000) + Self.line(1_001)
    let told = pipe.read(rest.count) == rest
    #expect(told)
    #expect(writer.lostLines == 900)
  }

  @Test func `what cannot be written is counted`() throws {
    signal(SIGPIPE, SIG_IGN)
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    close(ends[0])
    defer { close(ends[1]) }
    let writer = LogWriter(descriptor: ends[1])
    for number in 0..<10 { writer.write(Self.line(number)) }
    #expect(writer.flush(within: .seconds(120)))
    #expect(writer.lostLines == 10)
    #expect(writer.isEmpty)
  }

  @Test func `a descriptor that somebody made non-blocking loses nothing`() async throws {
    let pipe = try Pipe()
    #expect(fcntl(pipe.input, F_SETFL, O_NONBLOCK) == 0)
    let writer = LogWriter(descriptor: pipe.input)
    let lines = (0..<2_000).map { Self.line($0) }
    for line in lines { writer.write(line) }
    let isWhole = pipe.read(200_000) == Array(lines.joined())
    #expect(isWhole)
    #expect(writer.flush(within: .seconds(120)))
    #expect(writer.lostLines == 0)
  }

  @Test(arguments: [1, 100, 4_095, 4_096, 4_097, 9_000])
  func `lines are handed over whole, as many at once as a pipe does not mix`(length: Int) {
    let lines = Array((0..<90).map { Self.line($0, length: max(length, 4)) }.joined())
    var rest = lines[...]
    while !rest.isEmpty {
      let piece = LogWriter.piece(of: rest)
      #expect(piece.startIndex == rest.startIndex && piece.last == UInt8(ascii: "\n"))
      #expect(piece.count <= 4_096 || piece.count == length)
      rest = rest[piece.endIndex...]
    }
    let open = Array("no line feed".utf8)
    #expect(LogWriter.piece(of: open[...]) == open[...])
  }
}
