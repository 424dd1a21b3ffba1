import Foundation
import Testing

@testable import Subscriptions

@Suite struct OwnershipTests {
  private let anna = UUID()
  private let boris = UUID()

  private func settle(
    claimant: UUID? = nil, owner: Ownership? = nil, token: UUID? = nil, decided: UUID? = nil,
    policy: TransferPolicy = .keep, isActive: Bool = true, isProven: Bool = true, mayDisplace: Bool = true
  ) -> ClaimOutcome {
    decideOwner(
      claimant: claimant.map { .user($0) }, owner: owner, token: token, decidedToken: decided,
      kind: .user, policy: policy, isActive: isActive, isProven: isProven, mayDisplace: mayDisplace)
  }

  private func owned(by user: UUID, _ reason: Ownership.Reason = .firstClaim) -> Ownership {
    Ownership(customer: .user(user), reason: reason)
  }

  @Test func `a purchase has no owner until a customer proves it`() {
    #expect(settle() == .settled(nil))
    #expect(settle(claimant: anna) == .settled(owned(by: anna)))
  }

  @Test func `an owner that proves the purchase again stays the owner`() {
    #expect(settle(claimant: anna, owner: owned(by: anna)) == .settled(owned(by: anna)))
  }

  @Test(arguments: TransferPolicy.allCases)
  func `the first proof takes a purchase from a customer who only named its id`(policy: TransferPolicy) {
    let named = owned(by: boris, .unprovenClaim)
    #expect(settle(claimant: boris, policy: policy, isProven: false) == .settled(named))
    #expect(settle(claimant: boris, owner: named, policy: policy, isProven: false) == .settled(named))
    #expect(settle(claimant: boris, owner: named, policy: policy) == .settled(owned(by: boris)))
    #expect(
      settle(claimant: anna, owner: named, policy: policy) == .moved(owned(by: anna), from: .user(boris)))
  }

  @Test(arguments: TransferPolicy.allCases)
  func `a claim by a bare id is refused if the owner proved the purchase, or its token names the owner`(
    policy: TransferPolicy
  ) {
    for owner in [
      owned(by: anna), owned(by: anna, .transfer), owned(by: anna, .appAccountToken(anna)),
      owned(by: anna, .support(takenFrom: nil)),
    ] {
      #expect(
        settle(claimant: boris, owner: owner, policy: policy, isActive: false, isProven: false)
          == .refused(owner: owner))
    }
    let named = owned(by: anna, .appAccountToken(anna))
    #expect(
      settle(claimant: boris, token: anna, policy: policy, isProven: false) == .refused(owner: named))
    #expect(
      settle(
        claimant: boris, owner: owned(by: anna, .unprovenClaim), policy: .transfer, isProven: false)
        == .moved(owned(by: boris, .unprovenClaim), from: .user(anna)))
  }

  @Test func `an owner whose proof has another user's token keeps the purchase if the policy is transfer`() {
    let annas = owned(by: anna)
    #expect(
      settle(claimant: anna, owner: annas, token: boris, policy: .transfer)
        == .settled(owned(by: anna, .transfer)))
    #expect(
      settle(claimant: anna, owner: annas, token: boris, policy: .keep)
        == .refused(owner: owned(by: boris, .appAccountToken(boris))))
  }

  @Test func `the signed account token decides before any proof`() {
    #expect(settle(token: anna) == .settled(owned(by: anna, .appAccountToken(anna))))
    #expect(
      settle(claimant: boris, token: anna) == .refused(owner: owned(by: anna, .appAccountToken(anna))))
  }

  @Test func `a changed account token moves the purchase, and a repeated one does not move it back`() {
    let before = owned(by: anna, .appAccountToken(anna))
    #expect(
      settle(owner: before, token: boris, decided: anna)
        == .moved(owned(by: boris, .appAccountToken(boris)), from: .user(anna)))
    let transferred = owned(by: boris, .transfer)
    #expect(settle(owner: transferred, token: anna, decided: anna) == .settled(transferred))
  }

  @Test func `the app's transfer policy decides about another customer's proof`() {
    let annas = owned(by: anna)
    #expect(settle(claimant: boris, owner: annas, policy: .keep) == .refused(owner: annas))
    #expect(
      settle(claimant: boris, owner: annas, policy: .transfer)
        == .moved(owned(by: boris, .transfer), from: .user(anna)))
    #expect(
      settle(claimant: boris, owner: annas, policy: .transferWhenInactive, isActive: true)
        == .refused(owner: annas))
    #expect(
      settle(claimant: boris, owner: annas, policy: .transferWhenInactive, isActive: false)
        == .moved(owned(by: boris, .transfer), from: .user(anna)))
  }

  @Test func `a purchase that moved as often as it may keeps its owner, unless the owner never proved it`() {
    let annas = owned(by: anna)
    #expect(
      settle(claimant: boris, owner: annas, policy: .transfer, mayDisplace: false) == .postponed(owner: annas)
    )
    #expect(
      settle(claimant: boris, owner: annas, policy: .keep, mayDisplace: false) == .refused(owner: annas))
    #expect(settle(claimant: anna, owner: annas, policy: .transfer, mayDisplace: false) == .settled(annas))
    #expect(
      settle(claimant: boris, owner: owned(by: anna, .unprovenClaim), policy: .transfer, mayDisplace: false)
        == .moved(owned(by: boris), from: .user(anna)))
    // The App Store's word counts at any time, also where a claim comes with it.
    let named = owned(by: anna, .appAccountToken(anna))
    #expect(
      settle(owner: owned(by: boris), token: anna, mayDisplace: false) == .moved(named, from: .user(boris)))
    #expect(
      settle(claimant: boris, owner: owned(by: boris), token: anna, policy: .transfer, mayDisplace: false)
        == .postponed(owner: named))
  }

  @Test func `a count of moves begins again 24 hours after its first move`() {
    let start = Date(timeIntervalSince1970: 1_800_000_000)
    var moves: MoveCount?
    for number in 1...3 {
      #expect(moves.allowsMove(limit: 3, at: start + Double(number)))
      moves = moves.counting(moveAt: start + Double(number))
      #expect(moves == MoveCount(since: start + 1, moves: number))
    }
    #expect(!moves.allowsMove(limit: 3, at: start + 4))
    #expect(moves.wait(at: start + 4) == 86_397)
    // The clock of another server may be behind.
    #expect(!moves.allowsMove(limit: 3, at: start - 10))
    #expect(!moves.allowsMove(limit: 3, at: start + 86_400))
    #expect(moves.allowsMove(limit: 3, at: start + 86_401))
    #expect(moves.counting(moveAt: start + 86_401) == MoveCount(since: start + 86_401, moves: 1))
  }

  @Test func `an app account token decides nothing in an app whose customers are devices`() {
    let outcome = decideOwner(
      claimant: .device("phone"), owner: nil, token: anna, decidedToken: nil, kind: .device,
      policy: .keep, isActive: true)
    #expect(outcome == .settled(Ownership(customer: .device("phone"), reason: .firstClaim)))
  }

  @Test(arguments: TransferPolicy.allCases, [true, false])
  func `a proof does not reverse a support transfer, and the policy applies to other customers`(
    policy: TransferPolicy, isActive: Bool
  ) {
    let clara = UUID()
    let owner = owned(by: boris, .support(takenFrom: .user(anna)))
    #expect(
      settle(
        claimant: anna, owner: owner, token: anna, decided: anna, policy: policy, isActive: isActive)
        == .refused(owner: owner))
    #expect(settle(claimant: boris, owner: owner, policy: policy, isActive: isActive) == .settled(owner))
    let moves = policy == .transfer || policy == .transferWhenInactive && !isActive
    let third = settle(claimant: clara, owner: owner, policy: policy, isActive: isActive)
    #expect(
      third == (moves ? .moved(owned(by: clara, .transfer), from: .user(boris)) : .refused(owner: owner)))
    #expect(
      settle(owner: owner, token: clara, decided: anna)
        == .moved(owned(by: clara, .appAccountToken(clara)), from: .user(boris)))
  }
}
