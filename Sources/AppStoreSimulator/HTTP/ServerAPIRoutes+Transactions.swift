import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ServerAPIRoutes {
  func transactionInfo(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "transactionId")
    guard let transaction = try signable(id, of: app) else { throw ServerAPIError(.transactionIdNotFound) }
    var answer = TransactionInfoResponse()
    answer.signedTransactionInfo = try sign(transaction)
    return try .json(.ok, answer)
  }

  func history(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let order = request.query["sort"] ?? "ASCENDING"
    guard ["ASCENDING", "DESCENDING"].contains(order) else { throw ServerAPIError(.invalidSort) }
    let start = try request.query["revision"].map { revision in
      guard let position = HistoryPosition(revision) else { throw ServerAPIError(.invalidRequestRevision) }
      return position
    }
    let history = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.history(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard let history else { throw ServerAPIError(.transactionIdNotFound) }
    let page = HistoryPage(
      of: history, after: start, isDescending: order == "DESCENDING", length: Self.pageLength)
    var answer = HistoryResponse()
    answer.environment = environment
    answer.bundleId = app.bundleID
    answer.appAppleId = appAppleID(of: app)
    answer.revision = page.revision
    answer.hasMore = page.hasMore
    answer.signedTransactions = try page.records.map { try sign($0.transaction) }
    return try .json(.ok, answer)
  }

  func lookUpOrder(_ request: Request, of app: StoreApp) throws -> Response {
    let order = OrderID(try request.parameters.require("orderId", as: String.self))
    var answer = OrderLookupResponse()
    answer.status = .invalid
    // A family member has no order.
    if let order, let transaction = try signable(order.transactionID, of: app),
      transaction.inAppOwnershipType != .familyShared
    {
      answer.status = .valid
      answer.signedTransactions = [try sign(transaction)]
    }
    return try .json(.ok, answer)
  }

  func setAccountToken(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "originalTransactionId")
    let token = try body(request, as: UpdateAppAccountTokenRequest.self).appAccountToken
    try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.setAppAccountToken(token, of: id, in: app.bundleID, at: now)
    }
    return .empty(.ok)
  }

  /// Send Consumption Information: 202 for a body that Apple would accept.
  func takeConsumption(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "transactionId")
    let body: ConsumptionRequest = try body(request)
    guard body.customerConsented else { throw ServerAPIError(.invalidCustomerConsented) }
    guard Self.deliveryStatuses.contains(body.deliveryStatus) else {
      throw ServerAPIError(.invalidDeliveryStatus)
    }
    guard let transaction = try signable(id, of: app) else { throw ServerAPIError(.transactionIdNotFound) }
    guard transaction.inAppOwnershipType != .familyShared else {
      throw ServerAPIError(.familyTransactionNotSupported)
    }
    // Apple names these errors, but publishes no numbers for them.
    guard body.isConsistent(for: transaction) else { throw ServerAPIError(.generalBadRequest) }
    store.keep(ConsumptionReport(transactionID: id, body: body))
    return .empty(.accepted)
  }

  private static let deliveryStatuses: Set<DeliveryStatus> = [
    .delivered, .undeliveredQualityIssue, .undeliveredWrongItem, .undeliveredServerOutage, .undeliveredOther,
  ]

  /// The current state of a transaction of the app; nil for an unknown id.
  private func signable(_ id: String, of app: StoreApp) throws -> TransactionInfo? {
    try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.signable(id, of: app.bundleID, at: now)
    }
  }
}

extension ConsumptionRequest {
  /// Apple's rules for the consumed share and the preference: `ConsumptionPercentageOutOfRangeError`,
  /// `UndeliveredConsumptionPercentageNonZeroError`, `ConsumptionPercentageAutoRenewableSubscriptionError` and
  /// `InvalidRefundPreferenceError`.
  fileprivate func isConsistent(for transaction: TransactionInfo) -> Bool {
    let preferences: [RefundPreference?] = [nil, .decline, .grantFull, .grantProrated]
    guard preferences.contains(refundPreference) else { return false }
    if transaction.type == .autoRenewableSubscription { return consumptionPercentage == nil }
    if let consumptionPercentage {
      guard (0...100_000).contains(consumptionPercentage) else { return false }
      guard deliveryStatus == .delivered || consumptionPercentage == 0 else { return false }
    }
    return refundPreference != .grantProrated || (1..<100_000).contains(consumptionPercentage ?? 0)
  }
}
