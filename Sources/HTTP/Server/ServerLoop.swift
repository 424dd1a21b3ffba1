import Foundation
import Platform
import Sockets

/// The state that the connections of one server share on one event loop. Only code on that loop uses it.
final class ServerLoop {
  let core: ServerCore
  let loop: EventLoop
  /// The router for requests whose head arrives from now on.
  var router: Router
  /// The buffer in which responses are encoded. It is empty between events, so all connections share it.
  var output: [UInt8] = []
  /// The memory of the loop's connections for incomplete and waiting requests and for unread responses.
  var bufferedBytes = 0
  private var connections: [ObjectIdentifier: HTTPConnection] = [:]
  private var isDraining = false
  private var dateField = DateField(secondsSinceEpoch: 0)
  /// Identifiers have to differ, not to be secret.
  private var generator = SplitMix64(state: .random(in: .min ... .max))

  init(core: ServerCore, router: Router, loop: EventLoop) {
    self.core = core
    self.router = router
    self.loop = loop
    output.reserveCapacity(4096)
  }

  func add(_ connection: Connection) {
    let served = HTTPConnection(connection, on: self)
    connections[ObjectIdentifier(connection)] = served
    connection.start(handler: served)
    if isDraining { served.drain() }
  }

  func remove(_ connection: Connection) {
    connections[ObjectIdentifier(connection)] = nil
  }

  /// Closes idle connections at once and the others after their current request.
  func drain() {
    isDraining = true
    for connection in connections.values { connection.drain() }
  }

  /// Closes all connections at once.
  func closeAll() {
    for connection in connections.values { connection.close() }
  }

  /// Sheds load when the buffered bytes exceed the limit, from the connections with most of them first.
  ///
  /// So clients with small requests that read their responses are served under overload. An eighth of the memory is freed
  /// at once, because sorting thousands of connections is expensive.
  func enforceBufferLimit() {
    guard bufferedBytes > core.bufferedBytes else { return }
    // The client may have read some of its responses since the last count.
    for connection in connections.values { connection.updateBufferedBytes() }
    for connection in connections.values.sorted(by: { $0.bufferedBytes > $1.bufferedBytes }) {
      if bufferedBytes <= core.bufferedBytes / 8 * 7 { break }
      connection.shedLoad()
    }
  }

  func makeRequestID() -> RequestID { .generate(using: &generator) }

  /// The trace of the client's request, or a new one.
  func makeTrace(for head: RequestHead?) -> TraceContext {
    head?.trace(using: &generator) ?? .new(using: &generator)
  }

  /// The current `Date` field.
  func currentDateField() -> [UInt8] {
    let now = Int64(time(nil))
    if now != dateField.second { dateField = DateField(secondsSinceEpoch: now) }
    return dateField.line
  }
}
