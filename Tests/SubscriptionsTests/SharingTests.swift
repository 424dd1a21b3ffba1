import Foundation
import Testing

@testable import Subscriptions

/// A purchase that several devices may share.
@Suite struct SharingTests {
  @Test func `devices that only name the transaction's id displace each other, and no device with a proof`() {
    var story = SharingStory(limit: 2)
    story.prove("phone")
    story.isProven = false
    for stranger in ["a", "b", "c"] {
      story.prove(stranger)
      #expect(story.having == ["phone", stranger])
    }
    #expect(story.owner == Ownership(customer: .device("phone"), reason: .firstClaim))
    // A proof displaces a device without one, however long it is since the other device's proof.
    story.isProven = true
    story.prove("watch")
    #expect(story.having == ["phone", "watch"])
    story.isProven = false
    guard case .refused = story.prove("d") else {
      Issue.record("a device without a proof displaced one with a proof")
      return
    }
  }

  @Test func `a device without a proof that replaces the owner is an unproven owner`() {
    var story = SharingStory(limit: 1, isProven: false)
    story.prove("phone")
    let tablet = Ownership(customer: .device("tablet"), reason: .unprovenClaim)
    #expect(story.prove("tablet") == .moved(tablet, from: .device("phone")))
  }

  @Test func `the first proof makes an owner that only named the transaction's id a proven one`() {
    var story = SharingStory(limit: 1, isProven: false)
    story.prove("phone")
    #expect(story.owner == Ownership(customer: .device("phone"), reason: .unprovenClaim))
    story.isProven = true
    story.prove("phone")
    #expect(story.owner == Ownership(customer: .device("phone"), reason: .firstClaim))
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

  @Test func `each device that proves the purchase gets it up to the limit, in any order`() {
    for order in permutations(["phone", "watch", "tablet"]) {
      var story = SharingStory(limit: 3)
      for device in order { story.prove(device) }
      #expect(story.having == ["phone", "watch", "tablet"])
      #expect(story.owner == Ownership(customer: .device(order[0]), reason: .firstClaim))
    }
  }

  @Test
  func `beyond the limit the devices with the latest proofs share the purchase, in any order of proofs`() {
    for limit in 1...3 {
      for order in sequences(["a", "b", "c", "d"], length: 5) {
        var story = SharingStory(limit: limit)
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

  @Test func `no device is ever refused that proves the purchase, also beyond the limit`() {
    for limit in 1...3 {
      for order in sequences(["a", "b", "c", "d"], length: 5) {
        var story = SharingStory(limit: limit)
        for device in order {
          if case .refused = story.prove(device) {
            Issue.record("\(device) is refused: \(order) at \(limit)")
          }
        }
      }
    }
  }

  @Test func `a claim that proves no possession gets an unowned purchase, and joins no other device's`() {
    for order in sequences(["a", "b", "c"], length: 4) {
      var story = SharingStory(limit: 2, mayJoin: false)
      for device in order {
        let outcome = story.prove(device)
        if device == order[0] {
          #expect(outcome == .settled(Ownership(customer: .device(order[0]), reason: .firstClaim)))
        } else if let owner = story.owner {
          #expect(outcome == .refused(owner: owner))
        }
        #expect(story.having == [order[0]])
      }
    }
    // A device that joined with a proof keeps it.
    var story = SharingStory(limit: 2)
    for device in ["phone", "tablet"] { story.prove(device) }
    story.mayJoin = false
    #expect(story.prove("tablet") == .settled(story.owner))
    #expect(story.having == ["phone", "tablet"])
  }

  @Test func `a limit of one equals the rule for one customer who may transfer`() {
    for order in sequences(["a", "b", "c"], length: 4) {
      var story = SharingStory(limit: 1)
      var owner: Ownership?
      for device in order {
        let alone = decideOwner(
          claimant: .device(device), owner: owner, token: nil, decidedToken: nil, kind: .device,
          policy: .transfer, isActive: true)
        #expect(story.prove(device) == alone)
        switch alone {
        case .settled(let now), .refused(let now): owner = now
        case .moved(let now, _), .shared(let now, _, _), .postponed(let now): owner = now
        }
        #expect(story.owner == owner)
        #expect(story.having == Set([owner?.customer.id].compactMap(\.self)))
      }
    }
  }

  @Test func `a purchase that support took before sharing stays away from that device for good`() {
    var story = SharingStory(limit: 1)
    story.owner = Ownership(customer: .device("new"), reason: .support(takenFrom: .device("old")))
    for _ in 0..<2 {
      guard case .refused = story.prove("old") else {
        Issue.record("the old device has it again")
        return
      }
      // The owner changes, so its reason no longer names the old device.
      story.prove("third")
      #expect(story.having == ["third"])
    }
  }

  @Test func `every change names the device that gained and the one that lost`() {
    var story = SharingStory(limit: 2)
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
    var story = SharingStory(limit: 2)
    story.owner = Ownership(customer: .device("old"), reason: .firstClaim)
    story.prove("phone")
    #expect(story.having == ["old", "phone"])
    #expect(
      story.prove("watch")
        == .moved(
          Ownership(customer: .device("watch"), reason: .transfer), from: .device("old")))
  }

  @Test func `a reduced limit removes no device, and a new device replaces the oldest`() {
    var story = SharingStory(limit: 3)
    for device in ["a", "b", "c"] { story.prove(device) }
    story.limit = 2
    for device in ["a", "b", "c"] { story.prove(device) }
    #expect(story.having == ["a", "b", "c"])
    story.prove("d")
    #expect(story.having == ["b", "c", "d"])
  }

  @Test func `no proof reverses a decision of support, and all other devices follow the rule`() {
    var story = SharingStory(limit: 2)
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

  @Test func `no device replaces the one to which support gave the purchase`() {
    var story = SharingStory(limit: 2)
    story.mostMoves = 2
    for device in ["phone", "watch"] { story.prove(device) }
    story.give(to: "phone")
    for day in 0..<5 {
      story.now += Double(day) * 86_401
      for number in 0..<20 { story.prove("invented-\(day)-\(number)") }
      #expect(story.having.contains("phone"))
    }
  }

  @Test func `a device without a proof gives way to a proof at any time`() {
    var story = SharingStory(limit: 2, isProven: false)
    story.mostMoves = 2
    for number in 0..<20 { story.prove("stranger-\(number)") }
    #expect(story.moves?.moves == 2)
    story.isProven = true
    for device in ["phone", "watch"] { story.prove(device) }
    #expect(story.having == ["phone", "watch"])
    guard case .postponed = story.prove("tablet") else {
      Issue.record("a device with a proof was replaced beyond the limit")
      return
    }
  }

  @Test(arguments: [true, false])
  func
    `after the erasure of the owner, devices keep the purchase, removed ones stay removed, and a proof decides`(
      keepsNamed: Bool
    ) throws
  {
    let instant = Date(timeIntervalSince1970: 0)
    let holders = [
      Holder("named", at: instant, isProven: false), Holder("proven", at: instant),
      Holder("removed", at: instant, isBarred: true),
    ]
    var sharing = DeviceSharing(
      limit: 10, mayJoin: true, keepsNamed: keepsNamed, at: Date(timeIntervalSince1970: 10))
    func claim(by device: String) -> SharedClaim {
      sharing.claim(by: .device(device), owner: nil, holders: holders)
    }
    #expect(claim(by: "removed") == SharedClaim(outcome: .refused(owner: nil), holders: holders))
    for device in ["new", "proven", "named"] {
      let claim = claim(by: device)
      #expect(claim.outcome == .settled(Ownership(customer: .device(device), reason: .firstClaim)))
      let names = Set(claim.holders.map(\.deviceID))
      #expect(names == ["named", "proven", "removed", device])
      #expect(claim.holders.filter(\.isBarred).map(\.deviceID) == ["removed"])
      let own = try #require(claim.holders.first { $0.deviceID == device })
      #expect(own.isProven && own.provedAt == sharing.instant)
      #expect((own.since == instant) == (device != "new"))
    }
    // A device that only sends the transaction's id does not become the owner.
    sharing.isProven = false
    for device in ["new", "named"] {
      let claim = claim(by: device)
      #expect(claim.outcome == .settled(nil))
      #expect(claim.holders.map(\.deviceID) == ["named", "proven", "removed"])
    }
    #expect(
      claim(by: "proven").outcome == .settled(Ownership(customer: .device("proven"), reason: .firstClaim)))
  }

  @Test func `a notification without a claim does not change the devices that share a purchase`() {
    let owner = Ownership(customer: .device("phone"), reason: .firstClaim)
    let holders = [Holder("phone", at: Date(timeIntervalSince1970: 0))]
    let sharing = DeviceSharing(limit: 2, mayJoin: true, at: Date(timeIntervalSince1970: 10))
    let claim = sharing.claim(by: nil, owner: owner, holders: holders)
    #expect(claim == SharedClaim(outcome: .settled(owner), holders: holders))
  }
}
