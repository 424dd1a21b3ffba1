import Dispatch
import Platform

/// The part of a ``Listener`` that runs on an event loop.
final class Acceptor {
  private let descriptor: Int32
  private let loop: EventLoop
  private let loops: EventLoopGroup
  private let limiter: ConnectionLimiter
  private let events: Listener.Events
  private let accept: AcceptFunction
  private var watch: DescriptorWatcher.Watch?
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
    watch = loop.watcher.add(descriptor) { _ in bound.value.acceptWaiting() }
    wait()
  }

  private func wait() {
    guard let watch, !isStopped else { return }
    let code = loop.watcher.wait(for: .reading, watch)
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
    loop.watcher.remove(watch) { bound.value.closed() }
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
    if let watch { _ = loop.watcher.wait(for: [], watch) }
    let delay = backoff.failed()
    let bound = LoopBound(self, to: loop)
    loop.execute(after: delay) { bound.value.wait() }
    events.onAcceptError(error)
  }
}
