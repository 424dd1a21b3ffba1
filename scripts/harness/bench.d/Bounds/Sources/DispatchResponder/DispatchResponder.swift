import Dispatch
import Glibc
import Synchronization

/// The least that a server on Dispatch can do: reads what came, and answers each request head with the same
/// bytes, on one queue a core. No parser, no limits, no deadlines: a bound, not a server.
@main
enum DispatchResponder {
  nonisolated static func main() {
    signal(SIGPIPE, SIG_IGN)
    let port = CommandLine.arguments.dropFirst().first.flatMap { UInt16($0) } ?? 0
    let listener = listening(on: port)
    let cores = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    let queues = (0..<cores).map { DispatchQueue(label: "responder-\($0)") }
    let connections = Counter()
    let accepting = DispatchSource.makeReadSource(
      fileDescriptor: listener, queue: DispatchQueue(label: "accept"))
    accepting.setEventHandler { @Sendable in
      while true {
        let descriptor = accept(listener, nil, nil)
        guard descriptor >= 0 else { return }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)
        let number = connections.next()
        Peer(descriptor: descriptor, queue: queues[number % cores]).start()
      }
    }
    accepting.activate()
    dispatchMain()
  }

  private static func listening(on port: UInt16) -> Int32 {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    var yes: Int32 = 1
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard bound == 0, listen(listener, 1024) == 0 else {
      print("cannot listen on \(port)")
      exit(1)
    }
    return listener
  }
}

private final class Counter: Sendable {
  private let value = Atomic(0)

  func next() -> Int { value.add(1, ordering: .relaxed).oldValue }
}
