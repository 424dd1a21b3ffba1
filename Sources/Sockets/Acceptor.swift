import Dispatch
import Glibc

/// The part of a ``Listener`` that lives on a loop.
final class Acceptor {
  private let descriptor: Int32
  private let loop: EventLoop
  private let loops: EventLoopGroup
  private let census: ConnectionCensus
  private let events: Listener.Events
  private let accept: AcceptFunction
  private var source: SourceSwitch?
  private var backoff = AcceptBackoff()
  private var isStopped = false
  private var isClosed = false
  private var waitingForClose: [@Sendable () -> Void] = []

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
    let bound = LoopBound(self, to: loop)
    let source = SourceSwitch(
      DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: loop.queue),
      onEvent: { [loop] in loop.turn { bound.value.acceptWaiting() } },
      onCancel: { [loop] in loop.turn { bound.value.sourceEnded() } })
    self.source = source
    source.turn(on: true)
  }

  /// Accepts no more, and runs `action` when the socket is closed.
  func stop(then action: @escaping @Sendable () -> Void) {
    guard !isClosed else { return action() }
    waitingForClose.append(action)
    isStopped = true
    source?.cancel()
    source = nil
  }

  private func sourceEnded() {
    close(descriptor)
    isClosed = true
    for action in waitingForClose { action() }
    waitingForClose = []
  }

  /// Accepts some and lets the loop's connections have their turn; the source fires again for the rest.
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
    source?.turn(on: false)
    let delay = backoff.failed()
    let bound = LoopBound(self, to: loop)
    loop.execute(after: delay) { bound.value.source?.turn(on: true) }
    events.onTrouble(error)
  }
}
