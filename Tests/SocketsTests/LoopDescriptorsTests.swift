import Glibc
import TestSocket
import Testing

@testable import Sockets

@Suite struct LoopDescriptorsTests {
  /// One end of a socket pair, which notes what it is told.
  private final class Watched: ReadinessWatcher {
    let peer: TestSocket
    let descriptor: Int32
    var told: [Readiness] = []
    var whenTold: () throws -> Void = {}

    init() throws { (peer, descriptor) = try TestSocket.pair() }
    deinit { close(descriptor) }

    func ready(for readiness: Readiness) {
      told.append(readiness)
      do { try whenTold() } catch { Issue.record(error) }
    }

    func takeByte() {
      var byte: UInt8 = 0
      #expect(recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT)) == 1)
    }
  }

  private let descriptors = LoopDescriptors()

  @discardableResult
  private func deliver() -> Int {
    let count = descriptors.wait(atMost: 0)
    descriptors.deliver(count) { $0.ready(for: $1) }
    return count
  }

  @Test func `what was not read is told again, until it is`() throws {
    let watched = try Watched()
    try descriptors.wait(for: .reading, at: descriptors.add(watched, watched.descriptor))
    try watched.peer.send("x")
    for _ in 0..<3 { #expect(deliver() == 1) }
    #expect(watched.told == [.reading, .reading, .reading])
    watched.takeByte()
    #expect(deliver() == 0)
  }

  @Test func `only what is waited for is told`() throws {
    let watched = try Watched()
    let slot = descriptors.add(watched, watched.descriptor)
    try watched.peer.send("x")
    #expect(deliver() == 0)
    for interest: Readiness in [.writing, [.reading, .writing], .reading] {
      watched.told = []
      try descriptors.wait(for: interest, at: slot)
      #expect(deliver() == 1)
      #expect(watched.told == [interest])
    }
    try descriptors.wait(for: [], at: slot)
    #expect(deliver() == 0)
  }

  @Test(arguments: [Readiness.reading, .writing, [.reading, .writing]])
  func `that the other end is gone is told as what is waited for`(interest: Readiness) throws {
    let watched = try Watched()
    try descriptors.wait(for: interest, at: descriptors.add(watched, watched.descriptor))
    _ = shutdown(watched.peer.descriptor, Int32(SHUT_RDWR))
    #expect(deliver() == 1)
    #expect(watched.told == [interest])
  }

  @Test func `who waits for nothing is not told over and over that the other end is gone`() throws {
    let watched = try Watched()
    let slot = descriptors.add(watched, watched.descriptor)
    try descriptors.wait(for: .reading, at: slot)
    _ = shutdown(watched.peer.descriptor, Int32(SHUT_RDWR))
    try descriptors.wait(for: [], at: slot)
    #expect(deliver() == 0)
  }

  @Test func `who rests may be gone before it goes on, and is told then`() throws {
    let watched = try Watched()
    let slot = descriptors.add(watched, watched.descriptor)
    _ = shutdown(watched.peer.descriptor, Int32(SHUT_RDWR))
    try descriptors.wait(for: .reading, at: slot)
    #expect(deliver() == 1)
    #expect(watched.told == [.reading])
  }

  /// Two are ready and fetched together. Whoever comes first does something to the other, whose event is then
  /// out of date.
  private func meet(_ act: @escaping (_ other: Watched, _ slot: Int) throws -> Void) throws -> [Watched] {
    let pair = [try Watched(), try Watched()]
    let slots = pair.map { descriptors.add($0, $0.descriptor) }
    for (index, watched) in pair.enumerated() {
      try descriptors.wait(for: .reading, at: slots[index])
      try watched.peer.send("x")
      watched.whenTold = {
        watched.takeByte()
        try act(pair[1 - index], slots[1 - index])
      }
    }
    #expect(deliver() == 2)
    for watched in pair { watched.whenTold = {} }
    return pair
  }

  @Test func `who is removed is told nothing more, not even what was fetched before`() throws {
    let pair = try meet { _, slot in descriptors.remove(slot) }
    #expect(pair.map(\.told.count).sorted() == [0, 1])
  }

  @Test func `who comes to wait for nothing is told nothing more`() throws {
    let pair = try meet { _, slot in try descriptors.wait(for: [], at: slot) }
    #expect(pair.map(\.told.count).sorted() == [0, 1])
  }

  @Test func `who gets the slot of one that was removed is not told what was meant for that one`() throws {
    let successor = try Watched()
    let pair = try meet { _, slot in
      descriptors.remove(slot)
      let next = descriptors.add(successor, successor.descriptor)
      #expect(next == slot)
      try descriptors.wait(for: .reading, at: next)
    }
    #expect(pair.map(\.told.count).sorted() == [0, 1])
    #expect(successor.told.isEmpty)
    try successor.peer.send("y")
    deliver()
    #expect(successor.told == [.reading])
  }

  @Test func `who is ready without end does not keep the loop, and all have their share`() throws {
    let many = try (0..<2 * LoopDescriptors.batch).map { _ in try Watched() }
    for watched in many {
      try descriptors.wait(for: .writing, at: descriptors.add(watched, watched.descriptor))
    }
    for _ in 0..<20 { #expect(deliver() == LoopDescriptors.batch) }
    #expect(many.allSatisfy { $0.told.count == 10 })
  }

  @Test func `a watcher lives until it is removed, and not longer`() throws {
    var watched: Watched? = try Watched()
    weak let kept = watched
    let slot = descriptors.add(try #require(watched), try #require(watched).descriptor)
    watched = nil
    #expect(kept != nil)
    descriptors.remove(slot)
    #expect(kept == nil)
  }
}
