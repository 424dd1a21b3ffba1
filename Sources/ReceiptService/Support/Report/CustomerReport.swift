import Foundation

/// A report for support on the customers and purchases with an id: entitlements, their reasons, and recent events.
public struct CustomerReport: Sendable {
  /// The id that was searched for.
  let asked: String
  /// The result of the search.
  let found: FindResult
  /// One element for each customer and app.
  let customers: [ReportedCustomer]
  /// Purchases with that id that have no owner.
  let unclaimed: [ReportedPurchase]
  /// The server's clock.
  let serverTime: Date

  /// Whether nothing has the id.
  public var isEmpty: Bool {
    customers.isEmpty && unclaimed.isEmpty && (found.search.refusals.isEmpty || !found.isFound)
  }
}
