/// The bytes that wait to be sent, in one buffer.
struct OutboundQueue {
  private var bytes: [UInt8] = []
  private var start = 0

  var count: Int { bytes.count - start }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ more: UnsafeRawBufferPointer) {
    // Sent bytes are removed when they fill half of the buffer, so no more bytes are moved than were sent.
    if start > bytes.count / 2 {
      bytes.removeSubrange(..<start)
      start = 0
    }
    bytes.append(contentsOf: more)
  }

  /// Removes as many bytes from the front as `body` returns.
  mutating func consume(_ body: (UnsafeRawBufferPointer) -> Int) {
    start += bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    // An idle connection keeps no memory for sending.
    if start == bytes.count { removeAll() }
  }

  mutating func removeAll() {
    bytes = []
    start = 0
  }
}
