import CEpoll

/// What a descriptor is waited for, or found ready for, in the bits of epoll_ctl(2).
struct Readiness: OptionSet, Sendable, Hashable {
  let rawValue: UInt32

  /// Bytes, a connection to be accepted, or the end.
  static let reading = Readiness(rawValue: EPOLLIN.rawValue)
  /// Room for bytes.
  static let writing = Readiness(rawValue: EPOLLOUT.rawValue)

  /// An error or a hang-up, which epoll tells whether it is waited for or not. Whoever reads or writes next
  /// learns what it is.
  static let ended = Readiness(rawValue: EPOLLERR.rawValue | EPOLLHUP.rawValue)
}

/// Whose descriptor it is.
protocol ReadinessWatcher: AnyObject {
  /// The descriptor is ready for some of what it was waited for. What is left undone is told again.
  func ready(for readiness: Readiness)
}
