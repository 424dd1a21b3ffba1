/// What the connections of one event loop share, touched on that loop only.
final class LoopResources {
  /// Where bytes land before their connection's handler sees them: one buffer for all, since only one
  /// connection reads at a time.
  let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)
  let deadlines = LoopDeadlines()
  let descriptors: LoopDescriptors
  let jobs = LoopJobs()
  let round = LoopRound()

  /// - Parameter alarm: what wakes the loop, an eventfd(2).
  init(alarm: Int32) {
    descriptors = LoopDescriptors(alarm: alarm)
  }

  deinit { readBuffer.deallocate() }
}
