import Foundation
import Platform

/// The result of one attempt to accept a connection.
enum AcceptResult: Sendable {
  case accepted(descriptor: Int32, from: SocketAddress)
  /// The backlog is empty.
  case none
  /// This connection failed before it was accepted; the next one may succeed.
  case lost
  /// The process or the machine has no descriptors or memory left, so the next attempt would fail too.
  case exhausted(SocketError)
}

/// Accepts from a listening socket. A parameter, so that tests can simulate a lack of descriptors.
typealias AcceptFunction = @Sendable (_ listener: Int32) -> AcceptResult

/// Calls accept(2).
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
    if let address = SocketAddress(storage) { return .accepted(descriptor: descriptor, from: address) }
    Platform.close(descriptor)
    return .lost
  }
  return AcceptResult(failure: SocketError.last("accept"))
}

extension AcceptResult {
  /// Classifies an error of accept(2).
  ///
  /// Linux reports pending network errors of the new connection here; they do not concern the listening socket. An unknown
  /// error counts as exhaustion, so that the server waits before it retries.
  init(failure: SocketError) {
    switch failure.code {
    case EAGAIN: self = .none
    case EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, EHOSTUNREACH, EOPNOTSUPP,
      ENETUNREACH, ETIMEDOUT, ECONNRESET:
      self = .lost
    default: self = Platform.transientAcceptErrors.contains(failure.code) ? .lost : .exhausted(failure)
    }
  }
}

extension Backoff {
  /// The delay of a listener that ran out of descriptors or memory. It has no jitter, because a listener shares its
  /// descriptors with no other.
  static let accepting = Backoff(base: .milliseconds(20), maximum: .seconds(1), jitter: 0)
}
