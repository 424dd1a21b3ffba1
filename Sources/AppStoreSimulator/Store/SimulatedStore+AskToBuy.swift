import AppStore
import Foundation

extension SimulatedStore {
  /// Records a child's request to buy (Ask to Buy). StoreKit answers the app with `pending`; until a parent decides
  /// there is no transaction, no signed payload and no notification.
  ///
  /// - Returns: the id for approving or declining the request.
  public mutating func ask(_ request: PurchaseRequest) throws(StoreRefusal) -> UUID {
    _ = try product(request.productID, of: request.bundleID)
    let id = identifiers.uuid()
    pendingPurchases[id] = request
    return id
  }

  /// Approves a request, which becomes a purchase now. StoreKit delivers it to the app by `Transaction.updates`.
  public mutating func approve(_ request: UUID, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let purchase = try pending(request)
    let outcome = try buy(purchase, at: now)
    pendingPurchases[request] = nil
    return outcome
  }

  /// Declines a request: there is no purchase, and the app gets no notification.
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
  /// Records a child's request to buy. See ``SimulatedStore/ask(_:)``.
  public func ask(_ request: PurchaseRequest, in environment: Environment = .production) throws -> UUID {
    try withStore(of: environment) { store, _ throws(StoreRefusal) in try store.ask(request) }
  }

  /// Approves a request. See ``SimulatedStore/approve(_:at:)``.
  public func approve(_ request: UUID, in environment: Environment = .production) throws -> SignedOutcome {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in try store.approve(request, at: now) })
  }

  /// Declines a request. See ``SimulatedStore/decline(_:)``.
  public func decline(_ request: UUID, in environment: Environment = .production) throws {
    try withStore(of: environment) { store, _ throws(StoreRefusal) in try store.decline(request) }
  }
}
