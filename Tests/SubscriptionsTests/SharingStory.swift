import Foundation

@testable import Subscriptions

/// A purchase, and the devices that prove it one after the other, a second apart.
struct SharingStory {
  var limit: Int
  var mayJoin = true
  var isProven = true
  var owner: Ownership?
  var holders: [Holder] = []
  /// The most devices that may be replaced within 24 hours; `nil` for no limit.
  var mostMoves: Int?
  var provenMoves: MoveCount?
  var unprovenMoves: MoveCount?
  /// All moves that were counted, and the places that devices got back.
  var counted = 0
  var returns = 0
  var now = Date(timeIntervalSince1970: 1_800_000_000)

  /// The moves to devices with a proof and to those without one are counted apart, as the ledger does.
  var moves: MoveCount? {
    get { isProven ? provenMoves : unprovenMoves }
    set { if isProven { provenMoves = newValue } else { unprovenMoves = newValue } }
  }

  var having: Set<String> { Set(holders.filter { !$0.isBarred }.map(\.deviceID)) }

  @discardableResult
  mutating func prove(_ device: String) -> ClaimOutcome {
    now += 1
    let sharing = DeviceSharing(
      limit: limit, mayJoin: mayJoin, isProven: isProven, moves: mostMoves == nil ? nil : moves,
      mostMoves: mostMoves ?? .max, at: now)
    let claim = sharing.claim(by: .device(device), owner: owner, holders: holders)
    holders = claim.holders
    if claim.isCounted {
      moves = moves.counting(moveAt: now)
      counted += 1
    }
    if claim.isReturn { returns += 1 }
    switch claim.outcome {
    case .settled(let owner), .refused(let owner): self.owner = owner
    case .moved(let owner, _), .shared(let owner, _, _), .postponed(let owner): self.owner = owner
    }
    return claim.outcome
  }

  mutating func give(to device: String) {
    now += 1
    holders = holders.given(to: device, from: owner?.customer, at: now)
    owner = Ownership(customer: .device(device), reason: .support(takenFrom: owner?.customer))
  }
}
