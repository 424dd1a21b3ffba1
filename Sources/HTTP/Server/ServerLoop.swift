import Glibc
import Sockets

/// What the connections of one server on one event loop share. Touched on that loop only.
final class ServerLoop {
  let core: ServerCore
  let loop: EventLoop
  /// Who answers requests whose head comes from now on.
  var router: Router
  /// Where answers are written before they are sent. Empty between events, so one will do for all
  /// connections.
  var output: [UInt8] = []
  /// Bytes of requests that are still coming, of what waits behind others, and of answers that were not fetched.
  var heldBytes = 0
  private var connections: [ObjectIdentifier: HTTPConnection] = [:]
  private var isDraining = false
  private var dateField = DateField(secondsSinceEpoch: 0)
  private var generator = IdentifierGenerator()

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

  /// Ends idle connections, and the others after the request that is under way.
  func drain() {
    isDraining = true
    for connection in connections.values { connection.drain() }
  }

  /// Ends all connections, whatever they are doing.
  func cut() {
    for connection in connections.values { connection.cut() }
  }

  /// Gives up the connections for which most is held if all together hold too much. So whoever asks briefly and
  /// fetches the answer is served, whatever many others do; and an eighth of the room is made at once, since looking for
  /// them takes a while where there are thousands.
  func makeRoom() {
    guard heldBytes > core.heldBytes else { return }
    // What of the answers has been fetched meanwhile nobody has told.
    for connection in connections.values { connection.account() }
    for connection in connections.values.sorted(by: { $0.heldBytes > $1.heldBytes }) {
      if heldBytes <= core.heldBytes / 8 * 7 { break }
      connection.shed()
    }
  }

  func makeRequestID() -> RequestID { .generate(using: &generator) }

  /// The trace that a request goes on with: the caller's where it named one, else a new one.
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

/// SplitMix64, seeded from the system: identifiers have to differ, not to be secret.
private struct IdentifierGenerator: RandomNumberGenerator {
  private var state = UInt64.random(in: .min ... .max)

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
