import AppStore
import Foundation
import HTTP
import HTTPTypes
import Identifiers

/// The App Store Server API of one environment.
struct ServerAPIRoutes: Sendable {
  let store: SimulatedAppStore
  let tokens: ConnectTokenVerifier
  let environment: Environment
  /// The path prefix: empty in production, `/sandbox` in the sandbox.
  let prefix: String

  /// Apple's page length.
  static let pageLength = 20

  func add(to router: inout Router) {
    for endpoint in ServerEndpoint.allCases {
      router.on(endpoint.method, prefix + endpoint.path) { request in
        try await serve(request, endpoint)
      }
    }
  }

  /// Serves a request: applies a fault and checks its token.
  private func serve(_ request: Request, _ endpoint: ServerEndpoint) async throws -> Response {
    let fault = store.takeFault(for: endpoint, in: environment)
    switch fault?.fault {
    case nil: break
    case .error: return error(of: fault)
    case .unauthorized: return Self.unauthorized
    case .slow: try await Task.sleep(for: .seconds(fault?.delay ?? 1))
    case .close: throw ConnectionAbort()
    }
    let bundleID = await tokens.bundleID(ofAuthorization: request.headers[.authorization])
    guard let app = bundleID.flatMap(store.app) else { return Self.unauthorized }
    do {
      let answer = try answer(request, endpoint, of: app)
      if endpoint.isAction { store.keep(AcceptedRequest(endpoint: endpoint, body: request.body)) }
      return answer
    } catch let error as ServerAPIError {
      return error.response
    } catch StoreRefusal.serverAPI(let code) {
      return ServerAPIError(code).response
    }
  }

  private func answer(
    _ request: Request, _ endpoint: ServerEndpoint, of app: StoreApp
  ) throws -> Response {
    switch endpoint {
    case .transactionInfo: try transactionInfo(request, of: app)
    case .history: try history(request, of: app)
    case .orderLookup: try lookUpOrder(request, of: app)
    case .statuses: try statuses(request, of: app)
    case .extend: try extend(request, of: app)
    case .extendAll: try extendAll(request, of: app)
    case .extendAllStatus: try extensionStatus(request, of: app)
    case .accountToken: try setAccountToken(request, of: app)
    case .consumption: try takeConsumption(request, of: app)
    case .notificationHistory: try notificationHistory(request, of: app)
    case .testNotification: try requestTestNotification(of: app)
    case .testNotificationStatus: try testNotificationStatus(request, of: app)
    }
  }

  /// Apple's answer without JSON, both for an invalid token and for an app that was never released.
  private static let unauthorized = Response.text(.unauthorized, "Unauthenticated\n")

  private func error(of fault: ServerFault?) -> Response {
    let code = fault?.code ?? .generalInternal
    var response = ServerAPIError(code).response
    if code == .rateLimitExceeded {
      // Apple's unit: a UNIX time in milliseconds, not a number of seconds.
      let end = store.clock.now.addingTimeInterval(fault?.retryAfter ?? 1)
      response.headers[.retryAfter] = end.millisecondsSince1970?.description
    }
    return response
  }

  // MARK: Shared

  func sign(_ payload: some SignedPayload) throws -> String {
    try store.identity.authority.signer.sign(payload)
  }

  /// Apple omits the number in the sandbox.
  func appAppleID(of app: StoreApp) -> Int64? {
    environment == .production ? app.appAppleID : nil
  }

  /// The transaction id in the path: 1 to 32 digits.
  func transactionID(
    _ request: Request, _ name: String, orThrow code: AppStoreErrorCode = .invalidTransactionId
  ) throws -> String {
    guard let id = request.parameters[name], (1...32).contains(id.utf8.count),
      id.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
    else { throw ServerAPIError(code) }
    return id
  }

  /// Decodes the body.
  func body<Value: Decodable>(_ request: Request, as type: Value.Type = Value.self) throws -> Value {
    do {
      return try JSONDecoder().decode(type, from: Data(request.body))
    } catch {
      throw ServerAPIError(error)
    }
  }

  /// Sends notifications in order after the response, as Apple does.
  func sendLater(_ notifications: [SignedNotification]) {
    Task {
      for notification in notifications { await store.deliver(notification.uuid) }
    }
  }
}

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

extension ServerAPIRoutes {
  func requestTestNotification(of app: StoreApp) throws -> Response {
    guard store.hasWebhook else { throw ServerAPIError(.serverNotificationUrlNotFound) }
    let notification = try store.test(bundleID: app.bundleID, in: environment)
    sendLater([notification])
    var answer = SendTestNotificationResponse()
    answer.testNotificationToken = notification.uuid
    return try .json(.ok, answer)
  }

  func testNotificationStatus(_ request: Request, of app: StoreApp) throws -> Response {
    let token: String = try request.parameters.require("testNotificationToken")
    guard UUID(rfc9562: token) != nil else { throw ServerAPIError(.invalidTestNotificationToken) }
    guard let notification = store.notification(token.lowercased()),
      notification.content.type == .test, notification.content.environment == environment,
      notification.content.bundleID == app.bundleID, !notification.attempts.isEmpty
    else { throw ServerAPIError(.testNotificationNotFound) }
    var answer = CheckTestNotificationResponse()
    answer.signedPayload = notification.signedPayload
    answer.sendAttempts = notification.attempts.map(SendAttemptItem.init)
    return try .json(.ok, answer)
  }

  func notificationHistory(_ request: Request, of app: StoreApp) throws -> Response {
    let body: NotificationHistoryRequest = try body(request)
    guard body.startDate < body.endDate else { throw ServerAPIError(.startDateAfterEndDate) }
    let days: Double = environment == .production ? 180 : 30
    // An hour of tolerance, because the caller's clock is not the store's.
    guard body.startDate >= store.clock.now.addingTimeInterval(-days * 86_400 - 3600) else {
      throw ServerAPIError(.startDateTooFarInPast)
    }
    // A token is the index in the list of all notifications, which new notifications do not change.
    guard let start = Int(pathParameter: request.query["paginationToken"] ?? "0") else {
      throw ServerAPIError(.invalidPaginationToken)
    }
    let found = store.notifications.enumerated().dropFirst(start).filter { _, notification in
      let content = notification.content
      return content.environment == environment && content.bundleID == app.bundleID
        && (body.startDate...body.endDate).contains(content.signedDate)
    }
    var answer = NotificationHistoryResponse()
    answer.notificationHistory = found.prefix(Self.pageLength).map { _, notification in
      var item = NotificationHistoryResponseItem()
      item.signedPayload = notification.signedPayload
      item.sendAttempts = notification.attempts.map(SendAttemptItem.init)
      return item
    }
    answer.hasMore = found.count > Self.pageLength
    if found.count > Self.pageLength { answer.paginationToken = found[Self.pageLength].offset.description }
    return try .json(.ok, answer)
  }
}

extension SendAttemptItem {
  fileprivate init(_ attempt: SendAttempt) {
    self.init()
    attemptDate = attempt.attemptDate
    sendAttemptResult = attempt.outcome.result
  }
}
