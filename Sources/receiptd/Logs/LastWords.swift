import Glibc

/// What the log is given before a process that must not go on ends.
///
/// A fault ends the process from one instruction to the next, with the lines that say how it came to that still on their
/// way. The thread that has the fault waits for them, for a second at most: another one hands them over.
enum LastWords {
  /// Illegal instruction (which is how Swift stops where it cannot go on), bad memory, and abort(3).
  private static let faults = [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT]

  /// From now on. Where somebody else looks at a fault already, such as Swift's backtraces, it stays theirs.
  static func areAwaited() {
    // Made here, for the handler of a signal must not make it.
    _ = LogWriter.standardError
    for fault in faults {
      var former = sigaction()
      sigaction(fault, nil, &former)
      guard former.__sigaction_handler.sa_handler == nil else { continue }
      var action = sigaction()
      action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND))
      // Only calls of signal-safety(7) from here on.
      action.__sigaction_handler.sa_handler = { fault in
        var millisecond = timespec(tv_sec: 0, tv_nsec: 1_000_000)
        for _ in 0..<1_000 where !LogWriter.standardError.isEmpty { nanosleep(&millisecond, nil) }
        // It is reset: delivered as soon as this returns, the signal does what it does by default.
        raise(fault)
      }
      sigaction(fault, &action, nil)
    }
  }
}
