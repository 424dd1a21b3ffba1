import HTTP
import HTTPTypes
import Logging
import Synchronization
import TestSocket

/// A server on a port of its own, with the routes of the tests.
final class ServerFixture: Sendable {
  let server: HTTPServer
  let address: SocketAddress
  let summaries: Summaries
  /// Requests for `/gate` wait until it opens.
  let gate: Gate

  /// The summaries of the responses.
  final class Summaries: Sendable {
    private let list = Mutex<[RequestSummary]>([])
    var all: [RequestSummary] { list.withLock { $0 } }
    func append(_ summary: RequestSummary) { list.withLock { $0.append(summary) } }
  }

  init(_ adjust: (inout HTTPServerConfiguration) -> Void = { _ in }) throws {
    var configuration = HTTPServerConfiguration()
    configuration.eventLoops = 2
    adjust(&configuration)
    let summaries = Summaries()
    let gate = Gate()
    var silent = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    silent.logLevel = .critical
    server = HTTPServer(
      configuration: configuration, router: Self.router(gate), logger: silent,
      onResponse: { summaries.append($0) })
    self.summaries = summaries
    self.gate = gate
    address = try server.start()
  }

  func connect() throws -> TestSocket { try TestSocket(connectingTo: address) }

  /// Sends the bytes on a new connection and returns the responses until the server closes it.
  func exchange(_ bytes: [UInt8], bodiless: [Bool] = []) throws -> [WireResponse] {
    let socket = try connect()
    try socket.send(bytes)
    return try WireResponse.all(in: try socket.receiveAll(), bodiless: bodiless)
  }

  func exchange(_ text: String, bodiless: [Bool] = []) throws -> [WireResponse] {
    try exchange(Array(text.utf8), bodiless: bodiless)
  }

  struct Secret: Error { let text = "SELECT password FROM users" }

  private static func router(_ gate: Gate) -> Router {
    var router = Router()
    router.onImmediate(.get, "/now") { _ in .text("now") }
    router.on(.get, "/later") { _ in
      await Task.yield()
      return .text("later")
    }
    router.on(.get, "/trace") { _ in
      await Task.yield()
      return .text(TraceContext.current?.traceparent ?? "none")
    }
    router.on(.get, "/gate") { _ in
      try await gate.pass()
      return .text("gate")
    }
    router.on(.post, "/echo") { Response(body: $0.body) }
    router.onImmediate(.post, "/small", maximumBodyLength: 4) { Response(body: $0.body) }
    router.onImmediate(.get, "/large/{count}") { request in
      let count = try request.parameters.require("count", as: Int.self)
      return Response(body: [UInt8](repeating: UInt8(ascii: "x"), count: count))
    }
    router.onImmediate(.get, "/query") { .text(try $0.query.require("name")) }
    router.onImmediate(.get, "/who") {
      .text(
        "\($0.remoteAddress.host) \($0.id) \($0.authority ?? "-") \($0.query.raw.isEmpty ? $0.path : "\($0.path)?\($0.query.raw)")"
      )
    }
    router.onImmediate(.get, "/client") { .text("\($0.clientAddress)") }
    router.onImmediate(.get, "/hang-up") { _ in throw ConnectionAbort() }
    router.on(.get, "/hang-up/later") { _ in throw ConnectionAbort(sending: Array("HTTP/1.1 200 OK\r\n".utf8))
    }
    router.onImmediate(.get, "/secret") { _ in throw Secret() }
    router.on(.get, "/secret/later") { _ in throw Secret() }
    router.on(.get, "/problem") { _ in
      throw Problem(status: .conflict, code: "taken", detail: "It is taken.", headers: [.retryAfter: "7"])
    }
    return router
  }
}

/// Suspends tasks until the test opens it.
final class Gate: Sendable {
  private let state = Mutex(State())

  private struct State {
    var isOpen = false
    var arrived = 0
    var cancelled = 0
    var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
    var watchers: [(isDue: @Sendable (Int, Int) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []

    /// Removes and returns the waiters whose condition is met.
    mutating func dueWatchers() -> [CheckedContinuation<Void, Never>] {
      let due = watchers.filter { $0.isDue(arrived, cancelled) }.map(\.continuation)
      watchers.removeAll { $0.isDue(arrived, cancelled) }
      return due
    }
  }

  /// Waits for the gate to open.
  func pass() async throws {
    let number = state.withLock { state in
      state.arrived += 1
      return state.arrived
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let (passes, due) = state.withLock { state in
          let passes = state.isOpen || Task.isCancelled
          if !passes { state.waiting[number] = continuation }
          return (passes, state.dueWatchers())
        }
        if passes { continuation.resume() }
        for watcher in due { watcher.resume() }
      }
    } onCancel: {
      let (waiting, due) = state.withLock { state in
        state.cancelled += 1
        return (state.waiting.removeValue(forKey: number), state.dueWatchers())
      }
      waiting?.resume(throwing: CancellationError())
      for watcher in due { watcher.resume() }
    }
  }

  func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [:] }
      return Array(state.waiting.values)
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Waits until this many tasks have arrived at the gate.
  func arrivals(_ count: Int) async { await watch { arrived, _ in arrived >= count } }

  /// Waits until this many tasks were cancelled at the gate.
  func cancellations(_ count: Int) async { await watch { _, cancelled in cancelled >= count } }

  private func watch(_ isDue: @escaping @Sendable (Int, Int) -> Bool) async {
    await withCheckedContinuation { continuation in
      let due = state.withLock { state in
        state.watchers.append((isDue, continuation))
        return state.dueWatchers()
      }
      for watcher in due { watcher.resume() }
    }
  }
}
