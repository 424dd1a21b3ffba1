import Dispatch
import Foundation
import Synchronization

/// A TCP proxy on loopback that simulates network failures.
public final class Proxy: Sendable {
  /// The modes of the proxy.
  public enum Mode: Sendable {
    /// Forwards both directions.
    case pass
    /// Forwards the clients' bytes, and closes the connection when the server responds.
    case cutAtAnswer
    /// Forwards nothing and closes nothing.
    case silent
  }

  private struct State {
    var mode = Mode.pass
    /// The number of accepted connections so far.
    var count = 0
    /// The proxy ends the connections up to this number with this SQLSTATE.
    var ending = (through: 0, sqlState: "")
    var isStopped = false
    /// The number of pieces of requests that the proxy holds back.
    var heldRequests = 0
    var sockets: Set<Int32> = []
  }

  /// The port on 127.0.0.1 that it listens on.
  public let port: UInt16
  private let listener: Int32
  private let target: UInt16
  private let state = Mutex(State())

  /// Starts a proxy that forwards to a port of 127.0.0.1.
  public init(to target: UInt16) throws {
    self.target = target
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    port = try Self.listen(listener)
    thread { $0.accept() }
  }

  /// Changes the mode.
  public func set(_ mode: Mode) {
    state.withLock { $0.mode = mode }
  }

  /// Waits until it holds back bytes of a client. Its mode must be ``Mode/silent``.
  public func awaitHeldRequest() async throws {
    while state.withLock({ $0.heldRequests }) == 0 { try await Task.sleep(for: .milliseconds(2)) }
  }

  /// From now on, the proxy responds to the next bytes on each open connection with a FATAL error of this SQLSTATE and
  /// closes the connection.
  public func end(sqlState: String) {
    state.withLock { $0.ending = ($0.count, sqlState) }
  }

  /// Closes every connection, and still accepts new ones.
  public func cut() {
    state.withLock { state in
      for socket in state.sockets { shutdown(socket, Int32(SHUT_RDWR)) }
    }
  }

  /// Closes every connection and accepts no new ones.
  public func stop() {
    state.withLock { $0.isStopped = true }
    shutdown(listener, Int32(SHUT_RDWR))
    cut()
  }

  private func thread(_ body: @escaping @Sendable (Proxy) -> Void) {
    DispatchQueue(label: "proxy").async { body(self) }
  }

  private func accept() {
    while true {
      let client = Foundation.accept(listener, nil, nil)
      if client < 0 { break }
      let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      let (isWanted, number) = state.withLock { state in
        if !state.isStopped { state.sockets.formUnion([client, server]) }
        state.count += 1
        return (!state.isStopped, state.count)
      }
      guard isWanted, Self.withLoopback(target, { connect(server, $0, $1) }) == 0 else {
        forget(client, server)
        continue
      }
      let halves = Mutex(2)
      let finished: @Sendable () -> Void = {
        let isLast = halves.withLock { halves in
          halves -= 1
          return halves == 0
        }
        if isLast { self.forget(client, server) }
      }
      thread {
        $0.pump(client, server, isAnswer: false, number)
        finished()
      }
      thread {
        $0.pump(server, client, isAnswer: true, number)
        finished()
      }
    }
    close(listener)
  }

  private func forget(_ sockets: Int32...) {
    state.withLock { state in
      for socket in sockets {
        state.sockets.remove(socket)
        close(socket)
      }
    }
  }

  private func pump(_ source: Int32, _ sink: Int32, isAnswer: Bool, _ number: Int) {
    var buffer = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = read(source, &buffer, buffer.count)
      if count <= 0 { break }
      var mode = state.withLock { $0.mode }
      if case .silent = mode {
        if !isAnswer { state.withLock { $0.heldRequests += 1 } }
        defer { if !isAnswer { state.withLock { $0.heldRequests -= 1 } } }
        while case .silent = mode {
          if isClosed(source) { break }
          usleep(5000)
          mode = state.withLock { $0.mode }
        }
      }
      if isAnswer, case .cutAtAnswer = mode { break }
      let ending = state.withLock { $0.ending }
      if !isAnswer, number <= ending.through {
        let words = Self.lastWords(ending.sqlState)
        _ = send(source, words, words.count, Int32(MSG_NOSIGNAL))
        break
      }
      var sent = 0
      while sent < count {
        let written = send(sink, Array(buffer[sent..<count]), count - sent, Int32(MSG_NOSIGNAL))
        if written <= 0 { break }
        sent += written
      }
      if sent < count { break }
    }
    shutdown(source, Int32(SHUT_RDWR))
    shutdown(sink, Int32(SHUT_RDWR))
  }

  /// An ErrorResponse (PostgreSQL documentation, "Message Formats") as the server sends it before it closes.
  private static func lastWords(_ sqlState: String) -> [UInt8] {
    var body: [UInt8] = []
    for field in ["SFATAL", "VFATAL", "C\(sqlState)", "Mterminating connection"] {
      body += Array(field.utf8) + [0]
    }
    body.append(0)
    let length = UInt32(body.count + 4)
    return [UInt8(ascii: "E")] + withUnsafeBytes(of: length.bigEndian) { Array($0) } + body
  }

  private func isClosed(_ socket: Int32) -> Bool {
    var descriptor = pollfd(fd: socket, events: 0, revents: 0)
    return poll(&descriptor, 1, 0) > 0
  }

  private static func listen(_ listener: Int32) throws -> UInt16 {
    guard withLoopback(0, { bind(listener, $0, $1) }) == 0, Foundation.listen(listener, 64) == 0 else {
      throw POSIXError(.EADDRNOTAVAIL)
    }
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    _ = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &length) }
    }
    return UInt16(bigEndian: address.sin_port)
  }

  private static func withLoopback<R>(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R
  {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }
}
