import Glibc

/// A connection that is kept alive, with one request at a time.
struct Connection {
  /// What the last step of a request led to.
  enum Step {
    case waiting
    /// The response is complete: its status, and when the request was due.
    case answered(status: Int, due: UInt64)
    /// The connection ended before the response did; a new one takes its place.
    case broken
  }

  private(set) var descriptor: Int32
  private let port: UInt16
  /// When the request under way was due; `nil` for none.
  private var due: UInt64?
  private var output: [UInt8] = []
  private var written = 0
  private var input: [UInt8] = []

  init(port: UInt16) {
    self.port = port
    descriptor = Self.connected(to: port)
  }

  /// Whether a part of the request is still to be written.
  var isWriting: Bool { written < output.count }

  mutating func post(_ body: UnsafeRawBufferPointer, to path: String, due: UInt64) {
    self.due = due
    output = Array(
      """
      POST \(path) HTTP/1.1\r
      Host: 127.0.0.1:\(port)\r
      Content-Type: application/json\r
      Content-Length: \(body.count)\r
      \r\n
      """.utf8)
    output += body
    written = 0
  }

  /// Writes and reads what is possible without blocking.
  mutating func advance() -> Step {
    if isWriting {
      let count = output.withUnsafeBytes { bytes in
        let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
        return write(descriptor, rest.baseAddress, rest.count)
      }
      if count > 0 {
        written += count
      } else if errno != EAGAIN {
        return renew()
      }
    }
    while true {
      let count = withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 1) { buffer in
        let count = read(descriptor, buffer.baseAddress, buffer.count)
        if count > 0 { input += buffer[..<count] }
        return count
      }
      if count == 0 || (count < 0 && errno != EAGAIN) { return renew() }
      if let status = completeStatus(), let due {
        self.due = nil
        input = []
        return .answered(status: status, due: due)
      }
      if count < 0 { return .waiting }
    }
  }

  /// The status of the response, once all of its body has come. Each response of the measured routes has a Content-Length.
  private func completeStatus() -> Int? {
    guard let end = input.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
    let head = String(decoding: input[..<end.lowerBound], as: UTF8.self).lowercased()
    guard let field = head.firstRange(of: "content-length:"),
      let length = Int(head[field.upperBound...].prefix { $0 != "\r\n" && $0 != "\r" }.filter { $0 != " " }),
      input.count >= end.upperBound + length
    else { return nil }
    return Int(head.split(separator: " ")[1])
  }

  private mutating func renew() -> Step {
    close(descriptor)
    descriptor = Self.connected(to: port)
    output = []
    written = 0
    input = []
    guard due != nil else { return .waiting }
    due = nil
    return .broken
  }

  private static func connected(to port: UInt16) -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let connected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard connected == 0 else {
      print("cannot connect to port \(port)")
      exit(1)
    }
    var yes: Int32 = 1
    setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    return descriptor
  }
}
