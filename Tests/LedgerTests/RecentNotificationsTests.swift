import Foundation
import Platform
import Testing

@testable import Ledger

@Suite struct RecentNotificationsTests {
  @Test
  func `the cache of recent notifications knows the latest UUID, most of 36,000 earlier ones, and no other`()
  {
    let recent = RecentNotifications()
    var random = SplitMix64(state: 3)
    let old = (0..<36_000).map { _ in UUID.random(using: &random) }
    let strangers = (0..<36_000).map { _ in UUID.random(using: &random) }
    for batch in stride(from: 0, to: old.count, by: 16) {
      let arrived = old[batch..<min(batch + 16, old.count)]
      #expect(recent.known(among: arrived).isEmpty)
      recent.insert(arrived)
      #expect(recent.known(among: arrived).contains(arrived[arrived.endIndex - 1]))
    }
    #expect(recent.known(among: strangers).isEmpty)
    // Each UUID shares its slot with another one with a probability of 36,000 in 262,144.
    #expect(recent.known(among: old).count > old.count * 9 / 10)
  }
}
