import AppStore
import Foundation
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
      return try .json(.ok, TransactionInfoResponse(signedTransactionInfo: try sign(transaction)))
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
      return try .json(.ok, SendTestNotificationResponse(testNotificationToken: notification.uuid))
    }
    on(.get, "/inApps/v1/notifications/test/{testNotificationToken}", &router) { request, app in
      let token: String = try request.parameters.require("testNotificationToken")
      guard UUID(uuidString: token) != nil else { throw ServerAPIError.invalidTestNotificationToken }
      guard let notification = store.notification(token), notification.content.type == .test,
        notification.content.bundleID == app.bundleID, !notification.attempts.isEmpty
      else { throw ServerAPIError.testNotificationNotFound }
      return try .json(
        .ok,
        CheckTestNotificationResponse(
          signedPayload: notification.signedPayload,
          sendAttempts: notification.attempts.map(SendAttemptItem.init)))
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
    var groups: [(group: String, items: [StatusResponse.Item])] = []
    for state in states where wanted.isEmpty || wanted.contains(state.status.description) {
      let item = StatusResponse.Item(
        originalTransactionId: state.transaction.originalTransactionId, status: state.status,
        signedTransactionInfo: try sign(state.transaction), signedRenewalInfo: try sign(state.renewalInfo))
      if let index = groups.firstIndex(where: { $0.group == state.group }) {
        groups[index].items.append(item)
      } else {
        groups.append((state.group, [item]))
      }
    }
    return try .json(
      .ok,
      StatusResponse(
        environment: environment, bundleId: app.bundleID, appAppleId: appAppleID(of: app),
        data: groups.map {
          .init(subscriptionGroupIdentifier: $0.group, lastTransactions: $0.items)
        }))
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
    return try .json(
      .ok,
      HistoryResponse(
        environment: environment, bundleId: app.bundleID, appAppleId: appAppleID(of: app),
        revision: String(offset + page.count), hasMore: offset + page.count < history.count,
        signedTransactions: page.map(sign)))
  }

  private func notificationHistory(_ request: Request, of app: StoreApp) throws -> Response {
    let offset = try Self.offset(request.query["paginationToken"], orThrow: .invalidPaginationToken)
    guard let query = try? JSONDecoder().decode(NotificationHistoryRequest.self, from: Data(request.body))
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
    return try .json(
      .ok,
      NotificationHistoryResponse(
        notificationHistory: page.map {
          .init(signedPayload: $0.signedPayload, sendAttempts: $0.attempts.map(SendAttemptItem.init))
        }, hasMore: next < found.count, paginationToken: next < found.count ? String(next) : nil))
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
