import AppStore
import FoundationEssentials

extension SimulatedStore {
  /// A child asks to buy (Ask to Buy): StoreKit answers the app with `pending`, and until somebody of the family decides
  /// there is no transaction, nothing is signed and nobody is notified.
  /// - Returns: what the request is approved or declined by.
  public mutating func ask(_ request: PurchaseRequest) throws(StoreRefusal) -> UUID {
    _ = try product(request.productID, of: request.bundleID)
    let id = identifiers.uuid()
    pendingPurchases[id] = request
    return id
  }

  /// The request is approved: from this instant on it is a purchase like any other, which StoreKit brings to the app
  /// by `Transaction.updates`.
  public mutating func approve(_ request: UUID, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let purchase = try pending(request)
    let outcome = try buy(purchase, at: now)
    pendingPurchases[request] = nil
    return outcome
  }

  /// The request is declined: nothing was ever bought, and the app is told nothing.
  public mutating func decline(_ request: UUID) throws(StoreRefusal) {
    _ = try pending(request)
    pendingPurchases[request] = nil
  }

  private func pending(_ request: UUID) throws(StoreRefusal) -> PurchaseRequest {
    guard let purchase = pendingPurchases[request] else { throw .unknownRequest(request) }
    return purchase
  }
}

extension SimulatedAppStore {
  /// A child asks to buy. See ``SimulatedStore/ask(_:)``.
  public func ask(_ request: PurchaseRequest, in environment: Environment = .production) throws -> UUID {
    try withStore(of: environment) { store, _ throws(StoreRefusal) in try store.ask(request) }
  }

  /// What a child asked for is approved. See ``SimulatedStore/approve(_:at:)``.
  public func approve(_ request: UUID, in environment: Environment = .production) throws -> SignedOutcome {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in try store.approve(request, at: now) })
  }

  /// What a child asked for is declined. See ``SimulatedStore/decline(_:)``.
  public func decline(_ request: UUID, in environment: Environment = .production) throws {
    try withStore(of: environment) { store, _ throws(StoreRefusal) in try store.decline(request) }
  }
}
