import Foundation
import Testing

@testable import Subscriptions

/// Devices that replace each other in a purchase that they share, and how often.
@Suite struct DisplacementTests {
  @Test(arguments: 1...4)
  func `invented devices replace no more devices within 24 hours than may share the purchase`(limit: Int) {
    var story = SharingStory(limit: limit)
    story.mostMoves = limit
    for number in 1...limit { story.prove("family-\(number)") }
    let start = story.now
    for day in 0..<3 {
      story.now = start + Double(day) * 86_400 + 1
      var moves = 0
      for number in 0..<50 {
        let (owner, holders) = (story.owner, story.holders)
        switch story.prove("day-\(day)-\(number)") {
        case .moved, .shared: moves += 1
        case .postponed(let kept):
          #expect(kept == owner)
          #expect(story.holders == holders)
        case .settled, .refused: Issue.record("\(number) is neither bound nor postponed")
        }
      }
      #expect(moves == limit)
      #expect(story.having.count == limit)
    }
  }

  @Test func `devices that have the purchase and those that find room are never postponed`() {
    var story = SharingStory(limit: 3)
    story.mostMoves = 1
    for device in ["a", "b", "c"] { story.prove(device) }
    story.prove("d")
    #expect(story.having == ["b", "c", "d"])
    guard case .postponed = story.prove("e") else {
      Issue.record("a second device was replaced")
      return
    }
    for device in ["b", "c", "d"] { #expect(story.prove(device) == .settled(story.owner)) }
    story.limit = 4
    guard case .shared(_, _, insteadOf: nil) = story.prove("e") else {
      Issue.record("there is room")
      return
    }
  }

  @Test func `after three moves within 24 hours invented devices replace each other`() {
    var story = SharingStory(limit: 10)
    story.mostMoves = 10
    let family = Set((1...10).map { "family-\($0)" })
    for device in family.sorted() { story.prove(device) }
    for number in 0..<50 { story.prove("invented-\(number)") }
    #expect(story.having.intersection(family).count == 7)
    // A device of the family that comes first on the next day gets a place again.
    let lost = family.subtracting(story.having).sorted()
    for device in story.having.intersection(family) { story.prove(device) }
    story.now += 86_400
    for device in lost { story.prove(device) }
    #expect(story.having == family)
  }

  @Test func `beyond the moves of the day a device has back the place that it lost, and no other one`() {
    var story = SharingStory(limit: 3)
    story.mostMoves = 3
    for device in ["a", "b", "c", "x", "y", "z"] { story.prove(device) }
    #expect(story.having == ["x", "y", "z"])
    let a = Ownership(customer: .device("a"), reason: .transfer)
    #expect(story.prove("a") == .moved(a, from: .device("x")))
    #expect(story.prove("c") == .shared(a, with: .device("c"), insteadOf: .device("z")))
    #expect(story.having == ["a", "c", "y"])
    #expect(story.moves?.moves == 3)
    for device in ["x", "z", "other"] { #expect(story.prove(device) == .postponed(owner: a)) }
    story.prove("b")
    #expect(story.having == ["a", "b", "c"])
    #expect(story.holders.allSatisfy { $0.displaced.isEmpty })
  }

  @Test func `a place goes back to the device that had it before invented devices took it from each other`() {
    var story = SharingStory(limit: 5)
    story.mostMoves = 5
    let family = (1...5).map { "family-\($0)" }
    for device in family { story.prove(device) }
    for number in 1...20 { story.prove("invented-\(number)") }
    #expect(story.having == ["family-4", "family-5", "invented-1", "invented-2", "invented-5"])
    for device in family.reversed() { story.prove(device) }
    #expect(story.having == Set(family))
  }

  @Test func `thirty days after a device lost its place it has no right to it`() {
    for (days, isBack) in [(29.0, true), (30.0, false)] {
      var story = SharingStory(limit: 2)
      story.mostMoves = 2
      for device in ["a", "b", "x", "y"] { story.prove(device) }
      story.now += days * 86_400 - 1
      for device in ["v", "w"] { story.prove(device) }
      #expect(story.having == ["v", "w"])
      story.prove("a")
      #expect(story.having.contains("a") == isBack)
    }
  }

  @Test func `a device that support gave the purchase owes its place to none`() {
    var story = SharingStory(limit: 2)
    story.mostMoves = 2
    for device in ["a", "b", "x"] { story.prove(device) }
    story.give(to: "x")
    #expect(story.holders.allSatisfy { $0.displaced.isEmpty })
    // The device that lost its place before support decided joins by the rule.
    story.prove("a")
    #expect(story.having == ["a", "x"])
  }

  @Test(arguments: 1...40)
  func `a family that proves its purchase each day keeps it against devices that join each day`(seed: Int) {
    var random = Random(seed: UInt64(seed))
    var story = SharingStory(limit: Int.random(in: 2...10, using: &random))
    story.mostMoves = story.limit
    let family = Set((1...Int.random(in: 1...story.limit, using: &random)).map { "family-\($0)" })
    for device in family.sorted() { story.prove(device) }
    var invented = 0
    var end = story.now
    for day in 1...30 {
      end += 86_400
      // A device of the family that proves the purchase has it, whenever it comes.
      var waiting = family.shuffled(using: &random)
      let joins = Int.random(in: 0...14, using: &random)
      var joined = 0
      while !waiting.isEmpty || joined < joins {
        story.now += Double.random(in: 0...2_000, using: &random)
        switch Int.random(in: 0...3, using: &random) {
        case 0:
          guard let device = waiting.popLast() else { continue }
          story.prove(device)
          #expect(story.having.contains(device), "\(device) on day \(day)")
        case 1:
          for device in story.having.subtracting(family).sorted() { story.prove(device) }
        case 2 where invented > 0:
          story.prove("invented-\(Int.random(in: 1...invented, using: &random))")
        default:
          guard joined < joins else { continue }
          joined += 1
          invented += 1
          story.prove("invented-\(invented)")
        }
        #expect(story.having.count <= story.limit)
      }
      // The devices of the family that come after the last stranger of the day have their places at its end.
      for device in family.shuffled(using: &random) { story.prove(device) }
      #expect(family.isSubset(of: story.having), "day \(day)")
      end = max(end, story.now)
      story.now = end
    }
    #expect(story.returns <= story.counted)
  }

  @Test func `a place goes back to the first two devices that lost it, the first one before the second`() {
    var story = SharingStory(limit: 2)
    story.mostMoves = 2
    for device in ["old", "watch"] { story.prove(device) }
    story.now += 86_400
    for device in ["watch", "new"] { story.prove(device) }
    story.now += 86_400
    for device in ["x", "y", "z"] { story.prove(device) }
    #expect(story.having == ["x", "y"])
    for device in ["new", "watch"] { story.prove(device) }
    #expect(story.having == ["new", "watch"])
    // The old installation is used after all.
    story.prove("old")
    #expect(story.having == ["old", "watch"])
    for device in ["new", "x", "y"] {
      guard case .postponed = story.prove(device) else {
        Issue.record("\(device) came after the old installation")
        return
      }
    }
    #expect(story.holders.allSatisfy { $0.displaced.isEmpty })
  }

  @Test(arguments: [2, 3, 10], 1...15)
  func `a device that was reinstalled before invented devices join each day keeps its place`(
    limit: Int, seed: Int
  ) {
    var random = Random(seed: UInt64(seed))
    var story = SharingStory(limit: limit)
    story.mostMoves = limit
    var family = (1...limit).map { "family-\($0)" }
    for device in family { story.prove(device) }
    let reinstall = Int.random(in: 1...5, using: &random)
    let leak = reinstall + Int.random(in: 2...6, using: &random)
    var midnight = story.now
    for day in 1...50 {
      midnight += 86_400
      if day == reinstall { family[0] = "reinstalled" }
      // The times of the day's proofs; an invented device has no name yet.
      var proofs: [(at: Double, device: String?)] = family.map {
        (Double.random(in: 0..<80_000, using: &random), $0)
      }
      if day >= leak {
        let joins = Int.random(in: limit...limit + 10, using: &random)
        let first = Double.random(in: 0..<80_000, using: &random)
        for number in 0..<joins { proofs.append((min(80_000, first + Double(number * day)), nil)) }
        // The next window of moves begins with invented devices.
        if let since = story.provenMoves?.since {
          let next = since.timeIntervalSince(midnight) + 86_400
          if (0..<80_000).contains(next) {
            for _ in 0...limit { proofs.append((next, nil)) }
          }
        }
      }
      for (number, proof) in proofs.sorted(by: { $0.at < $1.at }).enumerated() {
        story.now = max(story.now, midnight + proof.at)
        story.prove(proof.device ?? "invented-\(day)-\(number)")
        #expect(story.having.count <= limit)
      }
      for device in family.shuffled(using: &random) { story.prove(device) }
      // The reinstalled device may have to wait for the moves of its second day.
      if day > reinstall + 1 { #expect(story.having == Set(family), "day \(day)") }
      #expect(story.holders.allSatisfy { $0.displaced.count <= 2 })
      #expect(story.returns <= story.counted)
    }
  }

  @Test(arguments: 1...20)
  func `devices that take turns have no more places and no more moves than a number of devices a day`(
    seed: Int
  ) {
    var random = Random(seed: UInt64(seed))
    let limit = Int.random(in: 2...10, using: &random)
    var story = SharingStory(limit: limit)
    story.mostMoves = limit
    var start: Date?
    var countedBefore = 0
    for _ in 0..<3_000 {
      story.now += Double.random(in: 0...1_800, using: &random)
      story.prove("device-\(Int.random(in: 1...20, using: &random))")
      #expect(story.having.count <= limit)
      #expect(story.returns <= story.counted)
      if story.moves?.since != start {
        start = story.moves?.since
        countedBefore = story.counted - 1
      }
      #expect(story.counted - countedBefore <= limit)
      let owed = story.holders.flatMap(\.displaced).map(\.deviceID)
      #expect(Set(owed).count == owed.count && story.having.isDisjoint(with: owed))
    }
  }

  /// A generator with a seed: SplitMix64.
  private struct Random: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var mixed = state
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      return mixed ^ (mixed >> 31)
    }
  }

}
