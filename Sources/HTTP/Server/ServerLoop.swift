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
  /// Bytes of bodies that are still coming.
  var unfinishedBytes = 0
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

  /// Refuses the longest of the bodies that are still coming if all together are too long. So whoever sends a short
  /// one is served, however many send long ones; and an eighth of the room is made at once, since looking for them takes
  /// a while where there are thousands.
  func makeRoom() {
    guard unfinishedBytes > core.unfinishedBodies else { return }
    for connection in connections.values.sorted(by: { $0.unfinishedBytes > $1.unfinishedBytes }) {
      if unfinishedBytes <= core.unfinishedBodies / 8 * 7 { break }
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
