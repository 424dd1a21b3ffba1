import Dispatch
import Foundation
import Platform
import Synchronization

/// Writes log lines to a descriptor on a queue of its own, so that no caller waits for the reader of the log.
///
/// The reader may block: a full pipe, a paused terminal, a full disk of a log collector. Lines wait in a bounded
/// buffer. A line that does not fit is dropped and counted. The next line that fits follows a line with the number of
/// dropped lines.
final class LogWriter: Sendable {
  /// The process's standard error. The exit of the process waits up to two seconds for the lines in the buffer.
  static let standardError: LogWriter = {
    atexit { _ = LogWriter.standardError.flush(within: .seconds(2)) }
    return LogWriter(descriptor: STDERR_FILENO)
  }()

  private struct State {
    var pending: [UInt8] = []
    /// The number of bytes that `write(2)` has not taken yet, those in `pending` included.
    var size = 0
    var isWriting = false
    /// The number of dropped lines that the log does not mention yet.
    var unreported = 0
    var lost = 0
  }

  private let state = Mutex(State())
  private let descriptor: Int32
  private let capacity: Int
  private let queue = DispatchQueue(label: "log")

  /// - Parameters:
  ///   - descriptor: stays the caller's.
  ///   - capacity: the size of the buffer in bytes.
  init(descriptor: Int32, capacity: Int = 1 << 20) {
    self.descriptor = descriptor
    self.capacity = capacity
  }

  /// The number of lines that were dropped or could not be written.
  var lostLines: Int { state.withLock { $0.lost } }

  /// Appends a line, with its line feed, and returns at once.
  ///
  /// - Parameter notice: makes the line with the number of lost lines.
  func append(_ line: [UInt8], afterLoss notice: (_ count: Int) -> [UInt8] = { _ in [] }) {
    let startsWriting = state.withLock { state in
      let notice = state.unreported > 0 ? notice(state.unreported) : []
      let size = notice.count + line.count
      guard state.size + size <= capacity else {
        state.unreported += 1
        state.lost += 1
        return false
      }
      state.unreported = 0
      state.pending += notice
      state.pending += line
      state.size += size
      defer { state.isWriting = true }
      return !state.isWriting
    }
    if startsWriting { queue.async { self.writePending() } }
  }

  /// Waits until the lines appended so far are written. It blocks its thread, so only the end of a process calls it.
  ///
  /// - Returns: whether all were written before the timeout.
  func flush(within timeout: DispatchTimeInterval) -> Bool {
    let end = DispatchSemaphore(value: 0)
    queue.async { end.signal() }
    return end.wait(timeout: .now() + timeout) == .success
  }

  private func writePending() {
    while let lines = takePending() {
      let written = write(lines)
      let lost = lines[written...].count { $0 == UInt8(ascii: "\n") }
      state.withLock { state in
        state.size -= lines.count
        state.unreported += lost
        state.lost += lost
      }
    }
  }

  private func takePending() -> [UInt8]? {
    state.withLock { state in
      guard !state.pending.isEmpty else {
        state.isWriting = false
        return nil
      }
      defer { state.pending = [] }
      return state.pending
    }
  }

  /// - Returns: the number of bytes written before an error.
  private func write(_ bytes: [UInt8]) -> Int {
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes {
        Platform.write(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written)
      }
      if count > 0 {
        written += count
      } else if count < 0, errno == EAGAIN {
        // Another process that shares the descriptor has made it non-blocking.
        var event = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&event, 1, -1)
      } else if count == 0 || errno != EINTR {
        return written
      }
    }
    return written
  }
}
