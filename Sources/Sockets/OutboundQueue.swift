/// Bytes that the socket has not taken yet, in one piece.
struct OutboundQueue {
  private var bytes: [UInt8] = []
  private var start = 0

  var count: Int { bytes.count - start }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ more: UnsafeRawBufferPointer) {
    // What was sent is moved away once it is most of the buffer, so each byte is moved at most once.
    if start > bytes.count / 2 {
      bytes.removeSubrange(..<start)
      start = 0
    }
    bytes.append(contentsOf: more)
  }

  /// Lets `body` take bytes off the front; it returns how many it took.
  mutating func consume(_ body: (UnsafeRawBufferPointer) -> Int) {
    start += bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    // A connection that is done sending holds no memory for it.
    if start == bytes.count { removeAll() }
  }

  mutating func removeAll() {
    bytes = []
    start = 0
  }
}
