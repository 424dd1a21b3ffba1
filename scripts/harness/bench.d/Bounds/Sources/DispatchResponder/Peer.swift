import Dispatch
import Glibc

/// One connection.
final class Peer: Sendable {
  private let descriptor: Int32
  // Dispatch's own sources may be used from any thread; its module does not say so yet.
  private nonisolated(unsafe) let source: any DispatchSourceRead
  // Touched by the handlers of `source` only, which run one after the other on its queue.
  private nonisolated(unsafe) let buffer = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 16_384, alignment: 16)

  private static let answer = Array(
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\nok\n".utf8)

  init(descriptor: Int32, queue: DispatchQueue) {
    self.descriptor = descriptor
    source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
  }

  /// The source keeps the peer alive until its connection ends.
  func start() {
    source.setEventHandler { self.serve() }
    source.setCancelHandler {
      close(self.descriptor)
      self.buffer.deallocate()
    }
    source.activate()
  }

  private func serve() {
    let count = read(descriptor, buffer.baseAddress, buffer.count)
    guard count > 0 else {
      if count == 0 || errno != EAGAIN { source.cancel() }
      return
    }
    for _ in 0..<countHeads(buffer[..<count]) { _ = write(descriptor, Self.answer, Self.answer.count) }
  }

  /// How many request heads end in these bytes; a load generator sends each in one piece.
  private func countHeads(_ bytes: Slice<UnsafeMutableRawBufferPointer>) -> Int {
    var count = 0
    var position = 3
    while position < bytes.count {
      if bytes[position] == 10, bytes[position - 2] == 10 {
        count += 1
        position += 4
      } else {
        position += 1
      }
    }
    return count
  }
}
