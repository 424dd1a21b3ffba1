import Subscriptions

/// A transfer of a purchase to another customer, by support.
struct SupportTransfer: Sendable {
  var customer: Customer
  var author: SupportAuthor

  /// The purchase's ownership after the transfer.
  /// - Parameter owner: the ownership before.
  func ownership(after owner: Ownership?) -> Ownership {
    // A repeated transfer keeps the original previous owner.
    if let owner, owner.customer == customer, case .support = owner.reason { return owner }
    let previous = owner?.customer
    return Ownership(
      customer: customer, reason: .support(takenFrom: previous == customer ? nil : previous))
  }
}
