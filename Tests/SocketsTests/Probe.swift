import Platform
import Sockets
import Synchronization
import TestSocket

/// A handler that records the events of its connection.
final class Probe: Sendable {
  enum Event: Equatable, Sendable {
    case received([UInt8])
    case ended
    case drained
    case deadline(MonotonicInstant)
    case closed(CloseReason)
    case released
  }

  private let pausesAfterReading = Atomic(false)
  private let loop: EventLoop
  private let connection: Mutex<LoopBound<Connection>?> = Mutex(nil)
  private let log = Mutex(Log())

  private struct Log {
    var events: [Event] = []
    var waiter: CheckedContinuation<Event, Never>?
  }

  private init(loop: EventLoop) { self.loop = loop }

  /// A probe on one end of a socket pair, and the other end.
  static func connect() async throws -> (TestSocket, Probe) {
    let (peer, descriptor) = try TestSocket.pair()
    let loop = EventLoop()
    let probe = Probe(loop: loop)
    await withCheckedContinuation { continuation in
      loop.execute {
        probe.adopt(
          Connection(
            adopting: descriptor, remoteAddress: SocketAddress(host: "pair", port: 0), loop: loop
          ) { probe.note(.released) })
        continuation.resume()
      }
    }
    return (peer, probe)
  }

  /// Starts the connection with this handler; called on its event loop.
  func adopt(_ connection: Connection) {
    self.connection.withLock { $0 = LoopBound(connection, to: connection.loop) }
    connection.start(handler: self)
  }

  private func note(_ event: Event) {
    let waiter = log.withLock { log -> CheckedContinuation<Event, Never>? in
      guard let waiter = log.waiter else {
        log.events.append(event)
        return nil
      }
      log.waiter = nil
      return waiter
    }
    waiter?.resume(returning: event)
  }

  /// The next event, in order.
  func next() async -> Event {
    await withCheckedContinuation { continuation in
      let event = log.withLock { log -> Event? in
        guard log.events.isEmpty else { return log.events.removeFirst() }
        log.waiter = continuation
        return nil
      }
      if let event { continuation.resume(returning: event) }
    }
  }

  /// Whether no event is left that the test has not taken.
  var isQuiet: Bool { log.withLock { $0.events.isEmpty } }

  /// Pauses reading after every event that received bytes.
  func pauseAfterReading() { pausesAfterReading.store(true, ordering: .relaxed) }

  /// Runs `body` on the connection's loop.
  @discardableResult
  func onLoop<Result: Sendable>(_ body: @escaping @Sendable (Connection) -> Result) async -> Result {
    let connection = connection.withLock { $0 }
    return await withCheckedContinuation { continuation in
      loop.execute {
        guard let connection = connection?.value else { preconditionFailure("There is no connection yet.") }
        continuation.resume(returning: body(connection))
      }
    }
  }
}

extension Probe: ConnectionHandler {
  func connection(_ connection: Connection, received bytes: UnsafeRawBufferPointer) {
    if pausesAfterReading.load(ordering: .relaxed) { connection.pauseReading() }
    note(.received(Array(bytes)))
  }

  func connectionReachedEnd(_ connection: Connection) { note(.ended) }

  func connectionFlushed(_ connection: Connection) { note(.drained) }

  func connection(_ connection: Connection, deadlinePassedAt now: MonotonicInstant) {
    note(.deadline(now))
  }

  func connection(_ connection: Connection, closedBecause reason: CloseReason) { note(.closed(reason)) }
}
