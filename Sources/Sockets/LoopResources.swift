import Dispatch

/// The resources that the connections of one event loop share. Only code on that loop uses them.
final class LoopResources {
  /// The read buffer of all connections of the loop; only one of them reads at a time.
  let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)
  let deadlines: LoopDeadlines

  init(queue: DispatchQueue) {
    deadlines = LoopDeadlines(queue: queue)
  }

  deinit { readBuffer.deallocate() }
}
