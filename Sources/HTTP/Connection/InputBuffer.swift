/// The received bytes that were not decoded yet.
struct InputBuffer {
  private(set) var bytes: [UInt8] = []
  /// The end of the decoded bytes.
  var position = 0

  var count: Int { bytes.count - position }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ more: UnsafeRawBufferPointer) {
    if position == bytes.count {
      bytes.removeAll(keepingCapacity: true)
      position = 0
    } else if position > bytes.count / 2 {
      bytes.removeSubrange(..<position)
      position = 0
    }
    bytes.append(contentsOf: more)
  }

  /// Removes all bytes, and frees the memory if it is more than a small request needs, because most connections are idle.
  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: bytes.capacity <= 1024)
    position = 0
  }
}
