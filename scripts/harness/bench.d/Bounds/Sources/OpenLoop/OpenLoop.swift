import Glibc

/// Posts each line of a file once, at a fixed rate, and counts each latency from the instant at which the request was due.
///
/// An open loop: a slow response delays no later request, except where no connection is free, and that wait counts. A closed
/// loop, as wrk's, sends less while the server is slow, so that its percentiles leave out the waiting (coordinated omission).
///
///     OpenLoop PORT PATH FILE RATE SECONDS CONNECTIONS
///
/// Prints one line of JSON; latencies in milliseconds.
@main
struct OpenLoop {
  private let path: String
  private let rate: Double
  private let bodies: Lines
  private var connections: [Connection]
  private var free: [Int]
  private var sent = 0
  private var latencies: [UInt64] = []
  private var refused = 0
  private var broken = 0
  private var late = 0

  nonisolated static func main() {
    let arguments = CommandLine.arguments
    guard arguments.count == 7, let port = UInt16(arguments[1]), let rate = Double(arguments[4]),
      let seconds = Double(arguments[5]), let connections = Int(arguments[6]), rate > 0,
      (1...1_000).contains(connections),
      let bodies = Lines(file: arguments[3])
    else {
      print("usage: OpenLoop PORT PATH FILE RATE SECONDS CONNECTIONS")
      exit(64)
    }
    signal(SIGPIPE, SIG_IGN)
    let count = Int(rate * seconds)
    guard bodies.count >= count else {
      print("\(arguments[3]) has \(bodies.count) lines, and \(count) requests are due")
      exit(65)
    }
    var loop = OpenLoop(
      path: arguments[2], rate: rate, bodies: bodies,
      connections: (0..<connections).map { _ in Connection(port: port) })
    loop.run(count)
  }

  private init(path: String, rate: Double, bodies: Lines, connections: [Connection]) {
    self.path = path
    self.rate = rate
    self.bodies = bodies
    self.connections = connections
    free = Array(connections.indices)
  }

  private mutating func run(_ count: Int) {
    latencies.reserveCapacity(count)
    let start = now()
    // What is under way after the last request was due has 30 s.
    let deadline = start + UInt64(Double(count) / rate * 1e9) + 30_000_000_000
    while latencies.count + broken < count {
      var instant = now()
      guard instant < deadline else { break }
      while sent < count, due(sent, start) <= instant, let index = free.popLast() {
        send(index, due(sent, start), instant)
        instant = now()
      }
      let next = sent < count && !free.isEmpty ? due(sent, start) : instant + 10_000_000
      wait(until: next, from: instant)
    }
    report(seconds: Double(now() - start) / 1e9)
  }

  private func due(_ number: Int, _ start: UInt64) -> UInt64 { start + UInt64(Double(number) / rate * 1e9) }

  private mutating func send(_ index: Int, _ due: UInt64, _ instant: UInt64) {
    // A millisecond: longer than the loop needs for what it has to do between two requests.
    if instant > due + 1_000_000 { late += 1 }
    connections[index].post(bodies[sent], to: path, due: due)
    sent += 1
    receive(index)
  }

  private mutating func wait(until next: UInt64, from instant: UInt64) {
    // poll(2) counts in milliseconds, which is coarser than the time between two requests.
    var readable = DescriptorSet()
    var writable = DescriptorSet()
    for connection in connections {
      readable.insert(connection.descriptor)
      if connection.isWriting { writable.insert(connection.descriptor) }
    }
    let highest = connections.reduce(0) { max($0, $1.descriptor) }
    let pause = next > instant ? (next - instant) / 1_000 : 0
    var timeout = timeval(tv_sec: Int(pause / 1_000_000), tv_usec: Int(pause % 1_000_000))
    guard select(highest + 1, &readable.bits, &writable.bits, nil, &timeout) > 0 else { return }
    for index in connections.indices {
      let descriptor = connections[index].descriptor
      if readable.contains(descriptor) || writable.contains(descriptor) { receive(index) }
    }
  }

  /// Goes on with the request of a connection; where its response is complete, the connection is free.
  private mutating func receive(_ index: Int) {
    switch connections[index].advance() {
    case .waiting: return
    case .answered(let status, let due):
      latencies.append(now() - due)
      if !(200..<300).contains(status) { refused += 1 }
    case .broken: broken += 1
    }
    free.append(index)
  }

  private func report(seconds: Double) {
    let sorted = latencies.sorted()
    func milliseconds(_ part: Double) -> Double {
      sorted.isEmpty ? 0 : Double(sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]) / 1e6
    }
    let mean = Double(sorted.reduce(0, +)) / 1e6 / Double(max(sorted.count, 1))
    print(
      """
      {"requests":\(sorted.count),"seconds":\(seconds),"p50":\(milliseconds(0.5)),"p90":\(milliseconds(0.9)),\
      "p99":\(milliseconds(0.99)),"p999":\(milliseconds(0.999)),"max":\(milliseconds(1)),"mean":\(mean),\
      "refused":\(refused),"broken":\(broken),"late":\(late)}
      """)
  }
}

/// The time of the monotonic clock, in nanoseconds.
private func now() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// A set of descriptors for select(2), below 1,024.
private struct DescriptorSet {
  var bits = fd_set()

  mutating func insert(_ descriptor: Int32) {
    withUnsafeMutableBytes(of: &bits) { $0[Int(descriptor) / 8] |= 1 << UInt8(descriptor % 8) }
  }

  func contains(_ descriptor: Int32) -> Bool {
    withUnsafeBytes(of: bits) { $0[Int(descriptor) / 8] & 1 << UInt8(descriptor % 8) != 0 }
  }
}

/// The lines of a file, which is mapped into memory.
private struct Lines {
  private let bytes: UnsafeRawBufferPointer
  private var ends: [Int] = []

  var count: Int { ends.count }

  init?(file: String) {
    let descriptor = open(file, O_RDONLY)
    guard descriptor >= 0 else { return nil }
    let size = Int(lseek(descriptor, 0, SEEK_END))
    guard size > 0, let mapped = mmap(nil, size, PROT_READ, MAP_PRIVATE, descriptor, 0), mapped != MAP_FAILED
    else {
      return nil
    }
    close(descriptor)
    bytes = UnsafeRawBufferPointer(start: mapped, count: size)
    for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") { ends.append(index) }
  }

  subscript(_ line: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: bytes[(line == 0 ? 0 : ends[line - 1] + 1)..<ends[line]])
  }
}
