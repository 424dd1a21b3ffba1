import Foundation
import Synchronization
import Text

/// The progress of a long command on standard error: one line that is rewritten on a terminal, else a line every few
/// seconds.
final class ProgressLine: Sendable {
  private struct State {
    var shown: ContinuousClock.Instant?
    var last = ""
    var isOpen = false
  }

  private let isTerminal = isatty(STDERR_FILENO) == 1
  private let state = Mutex(State())

  /// Shows a text, unless the last one is too young.
  func show(_ text: String) {
    state.withLock { state in
      guard text != state.last else { return }
      state.last = text
      let pause: Duration = isTerminal ? .milliseconds(200) : .seconds(5)
      if let shown = state.shown, .now - shown < pause { return }
      state.shown = .now
      write(text)
      state.isOpen = isTerminal
    }
  }

  /// Shows the last text, and ends the line.
  func end() {
    state.withLock { state in
      if !state.last.isEmpty { write(state.last) }
      if state.isOpen { LogWriter.standardError.append(Array("\n".utf8)) }
      state = State()
    }
  }

  private func write(_ text: String) {
    // Erases the rest of an earlier, longer text.
    LogWriter.standardError.append(Array((isTerminal ? "\r\(text)\u{1B}[K" : "\(text)\n").utf8))
  }
}
