/// What has arrived and was not taken yet.
struct InputBuffer {
  private(set) var bytes: [UInt8] = []
  /// Up to where it was taken.
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

  /// Forgets all, and gives the memory back if it is more than a small request needs: most of thousands of
  /// connections are idle at any time.
  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: bytes.capacity <= 1024)
    position = 0
  }
}
