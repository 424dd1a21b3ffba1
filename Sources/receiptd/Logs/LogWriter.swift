import Dispatch
import Glibc
import Synchronization

/// The log, on its way to whoever reads it.
///
/// A reader may stand still: a pipe that nobody empties, a terminal that was paused, a full disk behind a collector. A
/// service that waited for it would stand still as well. So nobody who writes here waits: lines are kept, up to a bound,
/// until a thread that does nothing else has handed them over. What finds no room is lost and counted, and the next line
/// that finds room comes after one that says how many those were.
final class LogWriter: Sendable {
  /// The process's standard error. Lines that are on their way when the process exits are handed over first.
  static let standardError: LogWriter = {
    atexit { _ = LogWriter.standardError.flush(within: .seconds(2)) }
    return LogWriter(descriptor: STDERR_FILENO)
  }()

  private struct State {
    var pending: [UInt8] = []
    /// Whether something is being handed over, or is about to be.
    var isBusy = false
    /// Lines that were lost and of which the log does not know yet.
    var untold = 0
  }

  private let state = Mutex(State())
  /// Bytes that were not handed over yet. It grows only under the lock.
  private let held = Atomic(0)
  private let lost = Atomic(0)
  private let descriptor: Int32
  private let room: Int
  private let queue = DispatchQueue(label: "log")

  /// - Parameters:
  ///   - descriptor: where lines go. It stays the caller's.
  ///   - room: the most bytes to keep.
  init(descriptor: Int32, room: Int = 1 << 20) {
    self.descriptor = descriptor
    self.room = room
  }

  /// How many lines were lost, because nobody read the log or because it could not be written.
  var lostLines: Int { lost.load(ordering: .relaxed) }

  /// Whether all lines were handed over.
  var isEmpty: Bool { held.load(ordering: .acquiring) == 0 }

  /// Takes a line, with its line feed. Never waits.
  ///
  /// - Parameter notice: the line that says that so many were lost.
  func write(_ line: [UInt8], afterLoss notice: (_ count: Int) -> [UInt8] = { _ in [] }) {
    let begins = state.withLock { state in
      let notice = state.untold > 0 ? notice(state.untold) : []
      let size = notice.count + line.count
      guard held.load(ordering: .relaxed) + size <= room else {
        state.untold += 1
        lost.wrappingAdd(1, ordering: .relaxed)
        return false
      }
      state.untold = 0
      state.pending += notice
      state.pending += line
      held.wrappingAdd(size, ordering: .relaxed)
      defer { state.isBusy = true }
      return !state.isBusy
    }
    if begins { queue.async { self.handOver() } }
  }

  /// Waits until what was written before is handed over. Only for the end of a process: it blocks its thread.
  /// - Returns: whether all of it is.
  func flush(within patience: DispatchTimeInterval) -> Bool {
    let end = DispatchSemaphore(value: 0)
    queue.async { end.signal() }
    return end.wait(timeout: .now() + patience) == .success
  }

  private func handOver() {
    while let lines = takePending() {
      var rest = lines[...]
      while !rest.isEmpty {
        let piece = Self.piece(of: rest)
        if !handOver(piece) {
          let count = piece.count { $0 == UInt8(ascii: "\n") }
          lost.wrappingAdd(count, ordering: .relaxed)
          state.withLock { $0.untold += count }
        }
        rest = rest[piece.endIndex...]
        held.wrappingSubtract(piece.count, ordering: .releasing)
      }
    }
  }

  private func takePending() -> [UInt8]? {
    state.withLock { state in
      guard !state.pending.isEmpty else {
        state.isBusy = false
        return nil
      }
      defer { state.pending = [] }
      return state.pending
    }
  }

  /// As many whole lines as a pipe takes without mixing them with another process's (`PIPE_BUF`, pipe(7)), and at least
  /// one.
  static func piece(of lines: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let feed = UInt8(ascii: "\n")
    let first = lines.prefix(Int(PIPE_BUF))
    guard first.endIndex < lines.endIndex else { return lines }
    if let last = first.lastIndex(of: feed) { return lines[...last] }
    return lines[first.endIndex...].firstIndex(of: feed).map { lines[...$0] } ?? lines
  }

  /// - Returns: whether all of it was taken.
  private func handOver(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        rest = rest.dropFirst(count)
      } else if count < 0, errno == EAGAIN {
        // Somebody who shares it has made it non-blocking.
        var wish = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&wish, 1, -1)
      } else if count == 0 || errno != EINTR {
        return false
      }
    }
    return true
  }
}
