import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ServerAPIRoutes {
  func statuses(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let wanted = Set(request.query.values(for: "status"))
    guard wanted.isSubset(of: ["1", "2", "3", "4", "5"]) else { throw ServerAPIError.invalidStatus }
    let states = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.subscriptions(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard let states else { throw ServerAPIError.transactionIDNotFound }
    var groups: [SubscriptionGroupIdentifierItem] = []
    for state in states where wanted.isEmpty || wanted.contains(state.status.description) {
      var item = LastTransactionsItem()
      item.originalTransactionId = state.transaction.originalTransactionId
      item.status = state.status
      item.signedTransactionInfo = try sign(state.transaction)
      item.signedRenewalInfo = try sign(state.renewalInfo)
      if let index = groups.firstIndex(where: { $0.subscriptionGroupIdentifier == state.group }) {
        groups[index].lastTransactions?.append(item)
      } else {
        var group = SubscriptionGroupIdentifierItem()
        group.subscriptionGroupIdentifier = state.group
        group.lastTransactions = [item]
        groups.append(group)
      }
    }
    var answer = StatusResponse()
    answer.environment = environment
    answer.bundleId = app.bundleID
    answer.appAppleId = appAppleID(of: app)
    answer.data = groups
    return try .json(.ok, answer)
  }

  func extend(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(
      request, "originalTransactionId", orThrow: .invalidOriginalTransactionID)
    let body: ExtensionBody = try body(request)
    let days = try body.days()
    _ = try body.identifier()
    let result = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.extend(id, in: app.bundleID, days: days, at: now)
    }
    let outcome: StoreOutcome
    do {
      outcome = try result.get()
    } catch {
      throw ServerAPIError(error)
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
    let body: ExtensionBody = try body(request)
    let days = try body.days()
    let identifier = try body.identifier()
    guard let productID = body.productId?.value, app.products[productID]?.period != nil else {
      throw ServerAPIError.invalidProductID
    }
    let mass = MassExtension(
      bundleID: app.bundleID, productID: productID, requestIdentifier: identifier, days: days,
      storefronts: try body.storefronts())
    let notifications = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.extendAll(mass, at: now)
    }
    sendLater(try notifications.map(store.record))
    var answer = MassExtendRenewalDateResponse()
    answer.requestIdentifier = identifier
    return try .json(.ok, answer)
  }

  func extensionStatus(_ request: Request, of app: StoreApp) throws -> Response {
    let key = RenewalExtensions.Key(
      bundleID: app.bundleID, productID: try request.parameters.require("productId"),
      requestIdentifier: try request.parameters.require("requestIdentifier"))
    let found = try store.withStore(of: environment) { store, _ throws(StoreRefusal) in
      store.extensions.requests[key]
    }
    guard let found else { throw ServerAPIError.statusRequestNotFound }
    var answer = MassExtendRenewalDateStatusResponse()
    answer.requestIdentifier = key.requestIdentifier
    answer.complete = found.completeDate != nil
    answer.completeDate = found.completeDate
    answer.succeededCount = found.succeeded
    answer.failedCount = found.failed
    return try .json(.ok, answer)
  }

  /// Sends notifications in order after the response, as Apple does.
  func sendLater(_ notifications: [SignedNotification]) {
    Task {
      for notification in notifications { await store.deliver(notification.uuid) }
    }
  }
}

/// The body of an extension of one or many subscriptions.
private struct ExtensionBody: Decodable {
  let extendByDays: Member<Int>?
  let extendReasonCode: Member<Int>?
  let requestIdentifier: Member<String>?
  let storefrontCountryCodes: Member<[String]>?
  let productId: Member<String>?

  /// The number of days; also checks the reason.
  func days() throws(ServerAPIError) -> Int {
    guard let days = extendByDays?.value, (1...90).contains(days) else { throw .invalidExtendByDays }
    guard let reason = extendReasonCode?.value, (0...3).contains(reason) else {
      throw .invalidExtendReasonCode
    }
    return days
  }

  func identifier() throws(ServerAPIError) -> String {
    guard let identifier = requestIdentifier?.value, (1...128).contains(identifier.utf8.count) else {
      throw .invalidRequestIdentifier
    }
    return identifier
  }

  func storefronts() throws(ServerAPIError) -> [String]? {
    guard let storefrontCountryCodes else { return nil }
    guard let codes = storefrontCountryCodes.value else { throw .invalidStorefront }
    if codes.isEmpty { throw .emptyStorefronts }
    for code in codes {
      guard code.utf8.count == 3, code.utf8.allSatisfy((UInt8(ascii: "A")...UInt8(ascii: "Z")).contains)
      else { throw .invalidStorefront }
    }
    return codes
  }
}

extension ServerAPIError {
  init(_ refusal: ExtensionRefusal) {
    self =
      switch refusal {
      case .notFound: .originalTransactionIDNotFound
      case .familyShared: .familySharedExtension
      case .ineligible: .extensionIneligible
      case .tooOften: .maximumExtensions
      }
  }
}
