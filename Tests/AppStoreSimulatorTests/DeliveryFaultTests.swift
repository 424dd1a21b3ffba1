import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct DeliveryFaultTests {
  private static func store(
    seed: UInt64 = 1
  ) throws -> (SimulatedAppStore, RecordingSender, VirtualClock) {
    let sender = RecordingSender()
    let clock = VirtualClock(startingAt: Climb.start, rate: 0)
    let store = try SimulatedAppStore(
      apps: [Climb.app], webhook: "http://127.0.0.1/", seed: seed, clock: clock, sender: sender)
    return (store, sender, clock)
  }

  /// Sends a number of notifications and returns them.
  private static func send(_ count: Int, from store: SimulatedAppStore) async throws -> [SignedNotification] {
    var sent: [SignedNotification] = []
    for _ in 0..<count {
      let notification = try store.test(bundleID: Climb.bundleID)
      await store.deliver(notification.uuid)
      sent.append(notification)
    }
    return sent
  }

  private static func faults(_ change: (inout DeliveryFaults) -> Void) -> DeliveryFaults {
    var faults = DeliveryFaults()
    change(&faults)
    return faults
  }

  @Test func `a delivery fault loses the next notifications and records them as timed out`() async throws {
    let (store, sender, _) = try Self.store()
    await store.setDeliveryFaults(Self.faults { $0.lose = 2 })
    let sent = try await Self.send(3, from: store)
    #expect(sender.payloads == [sent[2].signedPayload])
    #expect(
      sent.map { store.notification($0.uuid)?.attempts.map(\.outcome.result) } == [
        [.timedOut], [.timedOut], [.success],
      ])
  }

  @Test func `the store's retry delivers a lost notification`() async throws {
    let (store, sender, clock) = try Self.store()
    store.setRetries(true)
    await store.setDeliveryFaults(Self.faults { $0.lose = 1 })
    let sent = try await Self.send(1, from: store)
    #expect(sender.payloads.isEmpty)
    try clock.advance(by: 3600)
    await store.deliverDue()
    #expect(sender.payloads == sent.map(\.signedPayload))
    #expect(store.notification(sent[0].uuid)?.isDelivered == true)
  }

  @Test func `random losses and duplicates of notifications are the same for the same seed`() async throws {
    func arrivals(seed: UInt64) async throws -> [Int] {
      let (store, sender, _) = try Self.store(seed: seed)
      await store.setDeliveryFaults(
        Self.faults {
          $0.loss = 0.3
          $0.duplicates = 0.3
        })
      let sent = try await Self.send(200, from: store)
      return sent.map { one in sender.payloads.count { $0 == one.signedPayload } }
    }
    let first = try await arrivals(seed: 7)
    let again = try await arrivals(seed: 7)
    let other = try await arrivals(seed: 8)
    #expect(again == first)
    #expect(other != first)
    let counts = (0...2).map { number in first.count { $0 == number } }
    #expect(counts.allSatisfy { $0 > 20 } && counts.reduce(0, +) == 200, "\(counts)")
  }

  @Test func `a reorder fault holds notifications and sends them together in another order`() async throws {
    let (store, sender, _) = try Self.store()
    await store.setDeliveryFaults(Self.faults { $0.reorder = 10 })
    let early = try await Self.send(9, from: store)
    #expect(sender.payloads.isEmpty)
    let all = (early + (try await Self.send(1, from: store))).map(\.signedPayload)
    #expect(Set(sender.payloads) == Set(all))
    #expect(sender.payloads != all)
    // Held notifications are sent when the fault ends or is released.
    let rest = try await Self.send(3, from: store).map(\.signedPayload)
    #expect(sender.payloads.count == 10)
    await store.releaseHeld()
    #expect(Set(sender.payloads.suffix(3)) == Set(rest))
    let last = try await Self.send(1, from: store).map(\.signedPayload)
    await store.setDeliveryFaults(DeliveryFaults())
    #expect(sender.payloads.suffix(1) == last[...])
  }

  @Test func `a delay fault delays notifications by the store's clock`() async throws {
    let (store, sender, clock) = try Self.store()
    await store.setDeliveryFaults(Self.faults { $0.delay = 600 })
    let sent = try await Self.send(2, from: store)
    try clock.advance(by: 599)
    #expect(await store.deliverDue() == [])
    try clock.advance(by: 1)
    #expect(Set(await store.deliverDue()) == Set(sent.map(\.uuid)))
    #expect(sender.payloads.count == 2)
    #expect(store.notification(sent[0].uuid)?.attempts.map(\.attemptDate) == [Climb.start + 600])
  }
}
