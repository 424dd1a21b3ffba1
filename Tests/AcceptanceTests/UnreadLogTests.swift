import Curl
import Foundation
import Testing

/// `receiptd serve` with a pipe for its log that no process reads.
@Suite(.timeLimit(.minutes(10))) struct UnreadLogTests {
  /// A named pipe whose two ends stay open.
  private final class NamedPipe: Sendable {
    let file: URL
    private let descriptor: Int32

    init() throws {
      file = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID()).log")
      try #require(mkfifo(file.path, 0o600) == 0)
      descriptor = open(file.path, O_RDWR | O_NONBLOCK)
      try #require(descriptor >= 0)
    }

    deinit {
      close(descriptor)
      unlink(file.path)
    }

    /// The bytes in the pipe at this moment.
    func read() -> [UInt8] {
      var bytes: [UInt8] = []
      var buffer = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = Foundation.read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return bytes }
        bytes += buffer.prefix(count)
      }
    }
  }

  private static let loss = "log lines were lost"

  private struct Line: Decodable {
    let message: String
    let lines: Int?
  }

  private func lines(_ log: [UInt8]) throws -> [Line] {
    try log.split(separator: UInt8(ascii: "\n")).map { try JSONDecoder().decode(Line.self, from: Data($0)) }
  }

  @Test func `a blocked log reader delays no request and later gets the number of lost lines`() async throws {
    let pipe = try NamedPipe()
    try await withStage(log: pipe.file) { stage in
      try await stage.fillLog()
      #expect(try await stage.validate(try stage.buy("one", in: stage.stores.old)).status == 200)
      var log: [UInt8] = []
      while log.firstRange(of: Self.loss.utf8) == nil, !Task.isCancelled {
        log += pipe.read()
        _ = await stage.readiness()
      }
      let lost = try await stage.lostLines()
      #expect(await stage.receiptd.stop() == 0)
      log += pipe.read()
      let lines = try lines(log)
      // One line tells the number, or several where lines were lost again while the reader emptied the pipe.
      let told = lines.filter { $0.message.hasPrefix(Self.loss) }.map { $0.lines ?? 0 }
      #expect(told.allSatisfy { $0 > 0 } && told.reduce(0, +) == lost)
      #expect(lines.last?.message == "stopped")
    }
  }

  @Test func `a stopping server exits although its log reader is blocked`() async throws {
    let pipe = try NamedPipe()
    try await withStage(log: pipe.file) { stage in
      try await stage.fillLog()
      #expect(await stage.receiptd.stop() == 0)
    }
  }
}

extension Stage {
  /// Sends requests until a line of the log finds no room.
  fileprivate func fillLog() async throws {
    while try await lostLines() == 0 {
      try await withThrowingTaskGroup { group in
        for _ in 0..<4 {
          group.addTask {
            for _ in 0..<200 {
              _ = try await client.send(CurlRequest(url: "http://127.0.0.1:\(receiptd.port)/nowhere"))
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  fileprivate func lostLines() async throws -> Int {
    let answer = try await client.send(
      CurlRequest(url: "http://127.0.0.1:\(receiptd.adminPort)/metrics"))
    let text = String(decoding: answer.body, as: UTF8.self)
    let line = text.split(separator: "\n").first { $0.hasPrefix("receiptd_log_lines_lost_total ") }
    return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
  }
}
