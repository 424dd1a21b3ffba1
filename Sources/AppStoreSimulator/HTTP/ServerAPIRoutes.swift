import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes

/// The App Store Server API of one environment.
struct ServerAPIRoutes: Sendable {
  let store: SimulatedAppStore
  let tokens: ConnectTokenVerifier
  let environment: Environment
  /// What stands before `/inApps`: nothing in production, `/sandbox` in the sandbox.
  let prefix: String

  /// The longest page that Apple gives.
  private static let pageLength = 20

  func add(to router: inout Router) {
    on(.get, "/inApps/v1/transactions/{transactionId}", &router) { request, app in
      let id = try transactionID(request, "transactionId")
      let transaction = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
        store.signable(id, of: app.bundleID, at: now)
      }
      guard let transaction else { throw ServerAPIError.transactionIDNotFound }
      var answer = TransactionInfoResponse()
      answer.signedTransactionInfo = try sign(transaction)
      return try .json(.ok, answer)
    }
    on(.get, "/inApps/v1/subscriptions/{anyTransactionId}", &router) { request, app in
      try statuses(request, of: app)
    }
    on(.get, "/inApps/v2/history/{anyTransactionId}", &router) { request, app in
      try history(request, of: app)
    }
    on(.post, "/inApps/v1/notifications/history", &router) { request, app in
      try notificationHistory(request, of: app)
    }
    on(.post, "/inApps/v1/notifications/test", &router) { _, app in
      guard store.hasWebhook else { throw ServerAPIError.noWebhook }
      let notification = try store.test(bundleID: app.bundleID, in: environment)
      // Apple answers first and sends afterwards.
      Task { await store.deliver(notification.uuid) }
      var answer = SendTestNotificationResponse()
      answer.testNotificationToken = notification.uuid
      return try .json(.ok, answer)
    }
    on(.get, "/inApps/v1/notifications/test/{testNotificationToken}", &router) { request, app in
      let token: String = try request.parameters.require("testNotificationToken")
      guard UUID(uuidString: token) != nil else { throw ServerAPIError.invalidTestNotificationToken }
      guard let notification = store.notification(token), notification.content.type == .test,
        notification.content.bundleID == app.bundleID, !notification.attempts.isEmpty
      else { throw ServerAPIError.testNotificationNotFound }
      var answer = CheckTestNotificationResponse()
      answer.signedPayload = notification.signedPayload
      answer.sendAttempts = notification.attempts.map(SendAttemptItem.init)
      return try .json(.ok, answer)
    }
  }

  private func on(
    _ method: HTTPRequest.Method, _ pattern: String, _ router: inout Router,
    _ handler: @escaping @Sendable (Request, StoreApp) throws -> Response
  ) {
    router.on(method, prefix + pattern) { request in
      // Apple answers 401 without JSON, for a bad token and for an app that was never released alike.
      guard let bundleID = await tokens.bundleID(ofAuthorization: request.headers[.authorization]),
        let app = store.app(bundleID), app.isReleased || environment != .production
      else { return .text(.unauthorized, "Unauthenticated\n") }
      do {
        return try handler(request, app)
      } catch let error as ServerAPIError {
        return error.response
      }
    }
  }

  private func statuses(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let wanted = Set(request.query.values(for: "status"))
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

  private func history(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let offset = try Self.offset(request.query["revision"], orThrow: .invalidRevision)
    let history = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.history(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard var history else { throw ServerAPIError.transactionIDNotFound }
    if request.query["sort"] == "DESCENDING" { history.reverse() }
    let page = history.dropFirst(offset).prefix(Self.pageLength)
    var answer = HistoryResponse()
    answer.environment = environment
    answer.bundleId = app.bundleID
    answer.appAppleId = appAppleID(of: app)
    answer.revision = String(offset + page.count)
    answer.hasMore = offset + page.count < history.count
    answer.signedTransactions = try page.map(sign)
    return try .json(.ok, answer)
  }

  private func notificationHistory(_ request: Request, of app: StoreApp) throws -> Response {
    let offset = try Self.offset(request.query["paginationToken"], orThrow: .invalidPaginationToken)
    guard let query = try? JSONDecoder().decode(NotificationHistoryQuery.self, from: Data(request.body))
    else { throw ServerAPIError.generalBadRequest }
    guard let start = query.startDate.flatMap(Date.init(millisecondsSince1970:)) else {
      throw ServerAPIError.invalidStartDate
    }
    guard let end = query.endDate.flatMap(Date.init(millisecondsSince1970:)) else {
      throw ServerAPIError.invalidEndDate
    }
    guard start < end else { throw ServerAPIError.startDateAfterEndDate }
    guard query.transactionId == nil || query.notificationType == nil else {
      throw ServerAPIError.multipleFilters
    }
    let found = store.notifications.filter { notification in
      let content = notification.content
      return content.environment == environment && content.bundleID == app.bundleID
        && (start...end).contains(content.signedDate)
        && (query.notificationType.map { $0 == content.type } ?? true)
        && (query.notificationSubtype.map { $0 == content.subtype } ?? true)
        && (query.transactionId.map { content.concerns($0) } ?? true)
        && (query.onlyFailures != true || notification.attempts.last?.outcome.isSuccess == false)
    }
    let page = found.dropFirst(offset).prefix(Self.pageLength)
    let next = offset + page.count
    var answer = NotificationHistoryResponse()
    answer.notificationHistory = page.map { notification in
      var item = NotificationHistoryResponseItem()
      item.signedPayload = notification.signedPayload
      item.sendAttempts = notification.attempts.map(SendAttemptItem.init)
      return item
    }
    answer.hasMore = next < found.count
    if next < found.count { answer.paginationToken = String(next) }
    return try .json(.ok, answer)
  }

  private func sign(_ payload: some SignedPayload) throws -> String {
    try store.identity.authority.signer.sign(payload)
  }

  private func appAppleID(of app: StoreApp) -> Int64? {
    environment == .production ? app.appAppleID : nil
  }

  private func transactionID(_ request: Request, _ name: String) throws -> String {
    let id: String = try request.parameters.require(name)
    guard id.utf8.count <= 32, id.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) else {
      throw ServerAPIError.invalidTransactionID
    }
    return id
  }

  /// A token to go on from is the number of what was given already.
  private static func offset(_ token: String?, orThrow error: ServerAPIError) throws -> Int {
    guard let token else { return 0 }
    guard let offset = Int(pathParameter: token) else { throw error }
    return offset
  }
}

extension StoreNotification {
  /// Whether it is about the purchase that a transaction id belongs to.
  func concerns(_ transactionID: String) -> Bool {
    transaction?.transactionId == transactionID || transaction?.originalTransactionId == transactionID
  }
}

/// The body of Get Notification History, in which everything may be missing: the answer says what.
private struct NotificationHistoryQuery: Decodable {
  let startDate: Int64?
  let endDate: Int64?
  let notificationType: NotificationType?
  let notificationSubtype: Subtype?
  let transactionId: String?
  let onlyFailures: Bool?
}

extension SendAttemptItem {
  init(_ attempt: SendAttempt) {
    self.init()
    attemptDate = attempt.attemptDate
    sendAttemptResult = attempt.outcome.result
  }
}
