import Dispatch
import Glibc

/// The part of a ``Listener`` that lives on a loop.
final class Acceptor {
  private let descriptor: Int32
  private let loop: EventLoop
  private let loops: EventLoopGroup
  private let census: ConnectionCensus
  private let events: Listener.Events
  private let refusal: [UInt8]
  private let accept: AcceptFunction
  private var source: SourceSwitch?
  private var backoff = AcceptBackoff()
  private var isStopped = false

  init(
    descriptor: Int32, loop: EventLoop, loops: EventLoopGroup, census: ConnectionCensus,
    events: Listener.Events, refusal: [UInt8], accept: @escaping AcceptFunction
  ) {
    self.descriptor = descriptor
    self.loop = loop
    self.loops = loops
    self.census = census
    self.events = events
    self.refusal = refusal
    self.accept = accept
  }

  func start() {
    let bound = LoopBound(self, to: loop)
    let source = SourceSwitch(
      DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: loop.queue),
      onEvent: { bound.value.acceptWaiting() }, onCancel: { [descriptor] in _ = close(descriptor) })
    self.source = source
    source.turn(on: true)
  }

  func stop() {
    isStopped = true
    source?.cancel()
    source = nil
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
      _ = send(descriptor, refusal, refusal.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      close(descriptor)
      events.onRefusal(address)
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
    loop.queue.asyncAfter(deadline: .now() + .nanoseconds(delay.wholeNanoseconds)) {
      bound.value.source?.turn(on: true)
    }
    events.onTrouble(error)
  }
}

extension Duration {
  /// For Dispatch, which counts in nanoseconds.
  var wholeNanoseconds: Int {
    Int(components.seconds) * 1_000_000_000 + Int(components.attoseconds / 1_000_000_000)
  }
}
