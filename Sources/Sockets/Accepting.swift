import Glibc

/// What came of one attempt to accept a connection.
enum AcceptResult: Sendable {
  case accepted(descriptor: Int32, from: SocketAddress)
  /// Nobody waits.
  case none
  /// This one failed before it was ours; the next one may not.
  case lost
  /// The process or the machine is out of something, so that the next attempt would fail too.
  case exhausted(SocketError)
}

/// Accepts from a listening socket; a parameter, so that tests can run out of descriptors at will.
typealias AcceptFunction = @Sendable (_ listener: Int32) -> AcceptResult

/// Accepts from the system. The descriptor is closed in programs that this one starts.
@Sendable
func acceptFromSystem(_ listener: Int32) -> AcceptResult {
  var storage = sockaddr_storage()
  var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
  let descriptor = withUnsafeMutablePointer(to: &storage) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      accept(listener, $0, &length)
    }
  }
  guard descriptor < 0 else {
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    if let address = SocketAddress(storage) { return .accepted(descriptor: descriptor, from: address) }
    close(descriptor)
    return .lost
  }
  return AcceptResult(failure: SocketError.last("accept"))
}

extension AcceptResult {
  /// Sorts the errors of accept(2).
  ///
  /// Linux passes on pending network errors of the new connection, which concern nobody else. Whatever is
  /// not known is treated like exhaustion: the server waits and tries again rather than to spin or die.
  init(failure: SocketError) {
    switch failure.code {
    case EAGAIN: self = .none
    case EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH,
      EOPNOTSUPP, ENETUNREACH, ETIMEDOUT, ECONNRESET:
      self = .lost
    default: self = .exhausted(failure)
    }
  }
}

/// How long to let accepting rest after the process ran out of something.
struct AcceptBackoff {
  private var next = Duration.milliseconds(20)

  mutating func failed() -> Duration {
    defer { next = min(next * 2, .seconds(1)) }
    return next
  }

  mutating func succeeded() { next = .milliseconds(20) }
}
