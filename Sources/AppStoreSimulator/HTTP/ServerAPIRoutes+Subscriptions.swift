import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ServerAPIRoutes {
  func statuses(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let states = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.subscriptions(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard let states else { throw ServerAPIError(.transactionIdNotFound) }
    var answer = StatusResponse()
    answer.environment = environment
    answer.bundleId = app.bundleID
    answer.appAppleId = appAppleID(of: app)
    answer.data = try Dictionary(grouping: states, by: \.group).sorted { $0.key < $1.key }
      .map { group, states in
        var item = SubscriptionGroupIdentifierItem()
        item.subscriptionGroupIdentifier = group
        item.lastTransactions = try states.map(lastTransaction)
        return item
      }
    return try .json(.ok, answer)
  }

  private func lastTransaction(_ state: SubscriptionState) throws -> LastTransactionsItem {
    var item = LastTransactionsItem()
    item.originalTransactionId = state.transaction.originalTransactionId
    item.status = state.status
    item.signedTransactionInfo = try sign(state.transaction)
    item.signedRenewalInfo = try sign(state.renewalInfo)
    return item
  }

  func extend(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "originalTransactionId", orThrow: .invalidOriginalTransactionId)
    let body: ExtendRenewalDateRequest = try body(request)
    try check(days: body.extendByDays, reason: body.extendReasonCode, identifier: body.requestIdentifier)
    let outcome = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.extend(id, in: app.bundleID, days: Int(body.extendByDays), at: now)
    }
    let signed = try store.record(outcome)
    sendLater([signed.notification] + signed.others)
    var answer = ExtendRenewalDateResponse()
    answer.originalTransactionId = id
    answer.webOrderLineItemId = outcome.transaction.webOrderLineItemId
    answer.success = true
    answer.effectiveDate = outcome.transaction.expiresDate
    return try .json(.ok, answer)
  }

  func extendAll(_ request: Request, of app: StoreApp) throws -> Response {
    let body: MassExtendRenewalDateRequest = try body(request)
    try check(days: body.extendByDays, reason: body.extendReasonCode, identifier: body.requestIdentifier)
    guard app.products[body.productId]?.period != nil else { throw ServerAPIError(.invalidProductId) }
    if body.storefrontCountryCodes?.isEmpty == true {
      throw ServerAPIError(.invalidEmptyStorefrontCountryCodeList)
    }
    // ISO 3166-1 alpha-3.
    guard body.storefrontCountryCodes?.allSatisfy({ $0.count == 3 && $0.allSatisfy(\.isUppercase) }) != false
    else {
      throw ServerAPIError(.invalidStorefrontCountryCode)
    }
    let notifications = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.extendAll(body, in: app.bundleID, at: now)
    }
    sendLater(try notifications.map(store.record))
    var answer = MassExtendRenewalDateResponse()
    answer.requestIdentifier = body.requestIdentifier
    return try .json(.ok, answer)
  }

  func extensionStatus(_ request: Request, of app: StoreApp) throws -> Response {
    let productID: String = try request.parameters.require("productId")
    let identifier: String = try request.parameters.require("requestIdentifier")
    let end = try store.withStore(of: environment) { store, _ throws(StoreRefusal) in
      store.massExtension(of: productID, identifier, in: app.bundleID)
    }
    guard let end else { throw ServerAPIError(.statusRequestNotFound) }
    var answer = MassExtendRenewalDateStatusResponse()
    answer.requestIdentifier = identifier
    answer.complete = true
    answer.completeDate = end.signedDate
    answer.succeededCount = end.summary?.succeededCount
    answer.failedCount = end.summary?.failedCount
    return try .json(.ok, answer)
  }

  private func check(days: Int32, reason: ExtendReasonCode, identifier: String) throws {
    guard (1...90).contains(days) else { throw ServerAPIError(.invalidExtendByDays) }
    guard (0...3).contains(reason.rawValue) else { throw ServerAPIError(.invalidExtendReasonCode) }
    guard (1...128).contains(identifier.utf8.count) else { throw ServerAPIError(.invalidRequestIdentifier) }
  }
}
