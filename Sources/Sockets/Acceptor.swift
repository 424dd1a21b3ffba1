import Glibc

/// The part of a ``Listener`` that lives on a loop.
final class Acceptor {
  private let descriptor: Int32
  private let loop: EventLoop
  private let loops: EventLoopGroup
  private let census: ConnectionCensus
  private let events: Listener.Events
  private let accept: AcceptFunction
  private var slot: Int?
  private var backoff = AcceptBackoff()

  init(
    descriptor: Int32, loop: EventLoop, loops: EventLoopGroup, census: ConnectionCensus,
    events: Listener.Events, accept: @escaping AcceptFunction
  ) {
    self.descriptor = descriptor
    self.loop = loop
    self.loops = loops
    self.census = census
    self.events = events
    self.accept = accept
  }

  func start() {
    slot = loop.resources.descriptors.add(self, descriptor)
    wait()
  }

  /// Accepts no more, and runs `action` when the socket is closed.
  func stop(then action: @escaping @Sendable () -> Void) {
    if let slot {
      loop.resources.descriptors.remove(slot)
      self.slot = nil
      close(descriptor)
    }
    action()
  }

  private func wait() {
    guard let slot else { return }
    do throws(SocketError) {
      try loop.resources.descriptors.wait(for: .reading, at: slot)
    } catch {
      rest(because: error)
    }
  }

  /// Accepts some and lets the loop's connections have their turn; the loop comes back for the rest.
  private func acceptWaiting() {
    for _ in 0..<64 {
      guard slot != nil else { return }
      switch accept(descriptor) {
      case .accepted(let descriptor, let address):
        backoff.succeeded()
        take(descriptor, from: address)
      case .none:
        return
      case .lost:
        continue
      case .exhausted(let error):
        rest(because: error)
        return
      }
    }
  }

  private func take(_ descriptor: Int32, from address: SocketAddress) {
    guard census.admit(address) else {
      let refusal = events.onRefusal(address)
      _ = send(descriptor, refusal, refusal.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      close(descriptor)
      return
    }
    let loop = loops.next()
    loop.execute { [census, events] in
      events.onConnection(
        Connection(adopting: descriptor, remoteAddress: address, loop: loop) { census.release(address) })
    }
  }

  private func rest(because error: SocketError) {
    if let slot { try? loop.resources.descriptors.wait(for: [], at: slot) }
    let delay = backoff.failed()
    let bound = LoopBound(self, to: loop)
    loop.execute(after: delay) { bound.value.wait() }
    events.onTrouble(error)
  }
}

extension Acceptor: ReadinessWatcher {
  func ready(for readiness: Readiness) { acceptWaiting() }
}
