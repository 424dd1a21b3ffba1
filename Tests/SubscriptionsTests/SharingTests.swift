import Foundation
import Testing

@testable import Subscriptions

/// A purchase that several devices may share.
@Suite struct SharingTests {
  /// A purchase, and the devices that prove it one after the other, a second apart.
  private struct Story {
    var limit: Int
    var policy = TransferPolicy.transfer
    var isActive = true
    var owner: Ownership?
    var holders: [Holder] = []
    var now = Date(timeIntervalSince1970: 1_800_000_000)

    var having: Set<String> { Set(holders.filter { !$0.isBarred }.map(\.deviceID)) }

    @discardableResult
    mutating func prove(_ device: String) -> ClaimOutcome {
      now += 1
      let claim = share(
        claimant: .device(device), owner: owner, holders: holders, limit: limit, policy: policy,
        isActive: isActive, at: now)
      holders = claim.holders
      switch claim.outcome {
      case .settled(let owner): self.owner = owner
      case .moved(let owner, _), .shared(let owner, _, _), .refused(let owner): self.owner = owner
      }
      return claim.outcome
    }

    mutating func give(to device: String) {
      now += 1
      holders = holders.given(to: device, from: owner?.customer, at: now)
      owner = Ownership(customer: .device(device), reason: .support(takenFrom: owner?.customer))
    }
  }

  /// Every order of the names.
  private func permutations(_ names: [String]) -> [[String]] {
    guard names.count > 1 else { return [names] }
    return names.indices.flatMap { index in
      var rest = names
      let first = rest.remove(at: index)
      return permutations(rest).map { [first] + $0 }
    }
  }

  /// Every sequence of this many names, with repetitions.
  private func sequences(_ names: [String], length: Int) -> [[String]] {
    length == 0 ? [[]] : sequences(names, length: length - 1).flatMap { start in names.map { start + [$0] } }
  }

  @Test(arguments: TransferPolicy.allCases, [true, false])
  func `each device that proves a shared purchase gets it up to the limit, in any order`(
    policy: TransferPolicy, isActive: Bool
  ) {
    for order in permutations(["phone", "watch", "tablet"]) {
      var story = Story(limit: 3, policy: policy, isActive: isActive)
      for device in order { story.prove(device) }
      #expect(story.having == ["phone", "watch", "tablet"])
      #expect(story.owner == Ownership(customer: .device(order[0]), reason: .firstClaim))
    }
  }

  @Test
  func `beyond the limit the devices with the latest proofs share the purchase, in any order of proofs`() {
    for limit in 1...3 {
      for order in sequences(["a", "b", "c", "d"], length: 5) {
        var story = Story(limit: limit)
        var recent: [String] = []
        for device in order {
          story.prove(device)
          recent = [device] + recent.filter { $0 != device }
          #expect(story.having == Set(recent.prefix(limit)), "\(order) at \(limit)")
          let owner = story.owner?.customer
          #expect(story.having.contains { owner == .device($0) }, "the owner is one of them: \(order)")
        }
      }
    }
  }

  @Test func `under the policy keep the first devices share the purchase, in any order of proofs`() {
    for (policy, isActive) in [(TransferPolicy.keep, true), (.keep, false), (.transferWhenInactive, true)] {
      for order in sequences(["a", "b", "c", "d"], length: 5) {
        var story = Story(limit: 2, policy: policy, isActive: isActive)
        var first: [String] = []
        for device in order {
          let outcome = story.prove(device)
          if first.count < 2, !first.contains(device) { first.append(device) }
          #expect(story.having == Set(first))
          if !first.contains(device), let owner = story.owner { #expect(outcome == .refused(owner: owner)) }
        }
        #expect(story.owner?.customer == .device(order[0]))
      }
    }
  }

  @Test(arguments: TransferPolicy.allCases, [true, false])
  func `sharing with a limit of one equals the rule for one customer`(policy: TransferPolicy, isActive: Bool)
  {
    for order in sequences(["a", "b", "c"], length: 4) {
      var story = Story(limit: 1, policy: policy, isActive: isActive)
      var owner: Ownership?
      for device in order {
        let alone = settle(
          claimant: .device(device), owner: owner, token: nil, decidedToken: nil, kind: .device,
          policy: policy, isActive: isActive)
        #expect(story.prove(device) == alone)
        switch alone {
        case .settled(let now): owner = now
        case .moved(let now, _), .shared(let now, _, _), .refused(let now): owner = now
        }
        #expect(story.owner == owner)
        #expect(story.having == Set([owner?.customer.id].compactMap(\.self)))
      }
    }
  }

  @Test func `each change of a shared purchase names the device that gains it and the one that loses it`() {
    var story = Story(limit: 2)
    let phone = Ownership(customer: .device("phone"), reason: .firstClaim)
    #expect(story.prove("phone") == .settled(phone))
    #expect(story.prove("watch") == .shared(phone, with: .device("watch"), insteadOf: nil))
    #expect(story.prove("phone") == .settled(phone))
    #expect(story.prove("tablet") == .shared(phone, with: .device("tablet"), insteadOf: .device("watch")))
    let watch = Ownership(customer: .device("watch"), reason: .transfer)
    #expect(story.prove("watch") == .moved(watch, from: .device("phone")))
    #expect(story.having == ["tablet", "watch"])
  }

  @Test func `an owner from before sharing is the first device to lose the purchase`() {
    var story = Story(limit: 2)
    story.owner = Ownership(customer: .device("old"), reason: .firstClaim)
    story.prove("phone")
    #expect(story.having == ["old", "phone"])
    #expect(
      story.prove("watch")
        == .moved(
          Ownership(customer: .device("watch"), reason: .transfer), from: .device("old")))
  }

  @Test func `a reduced limit removes no device, and a new device replaces the oldest`() {
    var story = Story(limit: 3)
    for device in ["a", "b", "c"] { story.prove(device) }
    story.limit = 2
    for device in ["a", "b", "c"] { story.prove(device) }
    #expect(story.having == ["a", "b", "c"])
    story.prove("d")
    #expect(story.having == ["b", "c", "d"])
  }

  @Test(arguments: TransferPolicy.allCases)
  func `no proof reverses a support decision about a shared purchase, and other devices follow the policy`(
    policy: TransferPolicy
  ) {
    var story = Story(limit: 2, policy: policy, isActive: false)
    for device in ["phone", "watch"] { story.prove(device) }
    story.give(to: "new phone")
    #expect(story.having == ["new phone"])
    for device in ["phone", "watch"] {
      guard case .refused = story.prove(device) else {
        Issue.record("\(device) had it taken away")
        continue
      }
    }
    story.prove("new watch")
    #expect(story.having == ["new phone", "new watch"])
    // Support can also give the purchase back to a device that lost it.
    story.give(to: "watch")
    #expect(story.having == ["watch"])
    #expect(story.prove("watch") == .settled(story.owner))
    for device in ["phone", "new phone", "new watch"] { story.prove(device) }
    #expect(story.having == ["watch"])
  }

  @Test func `a notification without a claim does not change the devices that share a purchase`() {
    let owner = Ownership(customer: .device("phone"), reason: .firstClaim)
    let holders = [Holder("phone", at: Date(timeIntervalSince1970: 0))]
    let claim = share(
      claimant: nil, owner: owner, holders: holders, limit: 2, policy: .transfer, isActive: true,
      at: Date(timeIntervalSince1970: 10))
    #expect(claim == SharedClaim(outcome: .settled(owner), holders: holders))
  }
}
