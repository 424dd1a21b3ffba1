import FoundationEssentials
import Postgres
import Subscriptions

/// A transfer of a purchase to another customer, by support.
struct SupportTransfer: Sendable {
  var customer: Customer
  var author: SupportAuthor
  /// Refuses a customer that no record contains. The ledger calls it under the customer's lock: the customer may have been
  /// erased since support named it.
  var check: @Sendable (PostgresConnection) async throws -> Void

  /// The owner and the devices after the transfer: in an app that shares purchases, no other device keeps it.
  func claim(owner: Ownership?, holders: [Holder], in app: App, at instant: Date) -> SharedClaim {
    let device = app.sharesPurchases ? customer.deviceID : nil
    return SharedClaim(
      outcome: .settled(ownership(after: owner)),
      holders: device.map { holders.given(to: $0, from: owner?.customer, at: instant) } ?? holders)
  }

  /// The purchase's ownership after the transfer.
  /// - Parameter owner: the ownership before.
  private func ownership(after owner: Ownership?) -> Ownership {
    // A repeated transfer keeps the original previous owner.
    if let owner, owner.customer == customer, case .support = owner.reason { return owner }
    let previous = owner?.customer
    return Ownership(
      customer: customer, reason: .support(takenFrom: previous == customer ? nil : previous))
  }
}
