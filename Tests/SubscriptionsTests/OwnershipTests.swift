import Foundation
import Testing

@testable import Subscriptions

@Suite struct OwnershipTests {
  private let anna = UUID()
  private let boris = UUID()

  private func settle(
    claimant: UUID? = nil, owner: Ownership? = nil, token: UUID? = nil, decided: UUID? = nil,
    policy: TransferPolicy = .keep, isActive: Bool = true, isProven: Bool = true
  ) -> ClaimOutcome {
    Subscriptions.settle(
      claimant: claimant.map { .user($0) }, owner: owner, token: token, decidedToken: decided,
      kind: .user, policy: policy, isActive: isActive, isProven: isProven)
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

  @Test func `a customer without a proof whom the policy makes the owner is an unproven one`() {
    #expect(
      settle(claimant: boris, owner: owned(by: anna), policy: .transfer, isProven: false)
        == .moved(owned(by: boris, .unprovenClaim), from: .user(anna)))
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

  @Test func `an app account token decides nothing in an app whose customers are devices`() {
    let outcome = Subscriptions.settle(
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
