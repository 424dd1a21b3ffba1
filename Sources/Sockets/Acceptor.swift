import Dispatch
import Foundation
import Platform
import Synchronization

/// The part of a ``Listener`` that runs on an event loop.
final class Acceptor {
  private let descriptor: Int32
  private let loop: EventLoop
  private let loops: EventLoopGroup
  private let limiter: ConnectionLimiter
  private let events: Listener.Events
  private let accept: AcceptFunction
  private var watch: SocketQueue.Watch?
  private var backoff = Backoff.accepting
  private var isStopped = false
  private var isClosed = false
  private var closeActions: [@Sendable () -> Void] = []

  init(
    descriptor: Int32, loop: EventLoop, loops: EventLoopGroup, limiter: ConnectionLimiter,
    events: Listener.Events, accept: @escaping AcceptFunction
  ) {
    self.descriptor = descriptor
    self.loop = loop
    self.loops = loops
    self.limiter = limiter
    self.events = events
    self.accept = accept
  }

  func start() {
    let bound = LoopBound(self, to: loop)
    watch = loop.queue.add(descriptor) { _ in bound.value.acceptWaiting() }
    wait()
  }

  private func wait() {
    guard let watch, !isStopped else { return }
    let code = loop.queue.wait(for: .reading, watch)
    if code != 0 { pause(because: SocketError(operation: "wait for connections", code: code)) }
  }

  /// Stops accepting, and runs `action` after the socket was closed.
  func stop(then action: @escaping @Sendable () -> Void) {
    guard !isClosed else { return action() }
    closeActions.append(action)
    isStopped = true
    guard let watch else { return closed() }
    self.watch = nil
    let bound = LoopBound(self, to: loop)
    loop.queue.remove(watch) { bound.value.closed() }
  }

  private func closed() {
    guard !isClosed else { return }
    Platform.close(descriptor)
    isClosed = true
    for action in closeActions { action() }
    closeActions = []
  }

  /// Accepts at most 64 connections, so that the loop's other work is not delayed; the watcher reports the rest again.
  private func acceptWaiting() {
    for _ in 0..<64 {
      guard !isStopped else { return }
      switch accept(descriptor) {
      case .accepted(let descriptor, let address):
        backoff.succeeded()
        take(descriptor, from: address)
      case .none:
        return
      case .lost:
        continue
      case .exhausted(let error):
        pause(because: error)
        return
      }
    }
  }

  private func take(_ descriptor: Int32, from address: SocketAddress) {
    guard limiter.admit(address) else {
      let refusal = events.onRefusal(address)
      Platform.prepare(descriptor)
      _ = Platform.send(descriptor, refusal, refusal.count)
      Platform.close(descriptor)
      return
    }
    let loop = loops.next()
    loop.execute { [limiter, events] in
      events.onConnection(
        Connection(adopting: descriptor, remoteAddress: address, loop: loop) { limiter.release(address) })
    }
  }

  private func pause(because error: SocketError) {
    if let watch { _ = loop.queue.wait(for: [], watch) }
    let delay = backoff.failed()
    let bound = LoopBound(self, to: loop)
    loop.execute(after: delay) { bound.value.wait() }
    events.onAcceptError(error)
  }
}

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
  /// Linux reports pending network errors of the new connection here; they do not concern the listening socket. An
  /// unknown error counts as exhaustion, so that the server waits before it retries.
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

/// Counts open connections, in total and per address, and enforces their limits.
final class ConnectionLimiter: Sendable {
  private let maximum: Int
  private let maximumPerAddress: Int?
  private let isExemptFromAddressLimit: @Sendable (SocketAddress) -> Bool
  private let counts = Mutex(Counts())

  private struct Counts {
    var all = 0
    var byAddress: [UInt128: Int] = [:]
    var emptyActions: [@Sendable () -> Void] = []
  }

  /// - Parameter isExemptFromAddressLimit: whether the limit per address does not apply to an address.
  init(
    maximum: Int, maximumPerAddress: Int?,
    isExemptFromAddressLimit: @escaping @Sendable (SocketAddress) -> Bool = { _ in false }
  ) {
    self.isExemptFromAddressLimit = isExemptFromAddressLimit
    self.maximum = maximum
    self.maximumPerAddress = maximumPerAddress
  }

  var count: Int { counts.withLock { $0.all } }

  /// Counts a connection from the address, unless that would exceed a limit.
  ///
  /// - Returns: whether the connection was counted.
  func admit(_ address: SocketAddress) -> Bool {
    let key = countedKey(of: address)
    return counts.withLock { counts in
      guard counts.all < maximum else { return false }
      if let key, let maximumPerAddress {
        let present = counts.byAddress[key, default: 0]
        guard present < maximumPerAddress else { return false }
        counts.byAddress[key] = present + 1
      }
      counts.all += 1
      return true
    }
  }

  /// Uncounts a connection that was admitted.
  func release(_ address: SocketAddress) {
    let key = countedKey(of: address)
    let actions = counts.withLock { counts -> [@Sendable () -> Void] in
      counts.all -= 1
      if let key, let present = counts.byAddress[key] {
        counts.byAddress[key] = present == 1 ? nil : present - 1
      }
      guard counts.all == 0 else { return [] }
      defer { counts.emptyActions = [] }
      return counts.emptyActions
    }
    for action in actions { action() }
  }

  /// Runs `action` when no connection is counted: at once, or when the last one is released.
  func whenEmpty(_ action: @escaping @Sendable () -> Void) {
    let isEmpty = counts.withLock { counts in
      if counts.all > 0 { counts.emptyActions.append(action) }
      return counts.all == 0
    }
    if isEmpty { action() }
  }

  /// The key under which the address is counted; nil if it is not counted.
  private func countedKey(of address: SocketAddress) -> UInt128? {
    maximumPerAddress == nil || isExemptFromAddressLimit(address) ? nil : IPAddress(address).subscriberBits
  }
}
