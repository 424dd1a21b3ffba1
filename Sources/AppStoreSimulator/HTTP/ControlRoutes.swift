import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes

/// The control API: what makes things happen in the store. It asks for no authorization and therefore
/// answers only to this machine.
struct ControlRoutes: Sendable {
  let store: SimulatedAppStore
  /// Where purchases take place that name no environment.
  let environment: Environment

  func add(to router: inout Router) {
    on(.post, "/control/apps", &router) { request in
      store.put(try request.decodeJSON(CatalogApp.self).app)
      return .empty(.noContent)
    }
    on(.post, "/control/webhook", &router) { request in
      store.setWebhook(try request.decodeJSON(WebhookBody.self).url)
      return .empty(.noContent)
    }
    on(.post, "/control/purchases", &router) { try await buy($0) }
    on(.post, "/control/subscriptions/{originalTransactionID}/{command}", &router) { request in
      let body = request.body.isEmpty ? CommandParameters() : try request.decodeJSON(CommandParameters.self)
      let outcome = try store.perform(
        SubscriptionCommand(named: request.parameters.require("command"), body),
        on: request.parameters.require("originalTransactionID"))
      return try .json(
        .ok,
        CommandAnswer(
          transactionID: outcome.transactionID, originalTransactionID: outcome.originalTransactionID,
          signedTransaction: outcome.signedTransaction, signedRenewalInfo: outcome.signedRenewalInfo,
          notification: await delivered(outcome.notification, for: request),
          others: await delivered(outcome.others, for: request)))
    }
    on(.post, "/control/app-transactions", &router) { request in
      let body = try request.decodeJSON(AppTransactionBody.self)
      let (payload, signed) = try store.appTransaction(
        of: body.bundleID, accountID: body.account, originalPurchaseDate: body.originalPurchaseDate,
        originalVersion: body.originalApplicationVersion, in: body.environment ?? environment)
      return try .json(
        .ok, AppTransactionAnswer(appTransactionID: payload.appTransactionId, signedAppTransaction: signed))
    }
    on(.post, "/control/test", &router) { request in
      let body = try request.decodeJSON(TestBody.self)
      let notification = try store.test(bundleID: body.bundleID, in: body.environment ?? environment)
      return try .json(.ok, await delivered(notification, for: request))
    }
    addAnnouncements(to: &router)
    on(.get, "/control/truth/{transactionID}", &router) { request in
      guard let truth = store.truth(of: try request.parameters.require("transactionID")) else {
        throw Problem.notFound("The store has no such transaction.")
      }
      return try .json(.ok, truth)
    }
    on(.get, "/control/notifications", &router) { request in
      let purchase = request.query["originalTransactionID"]
      let notifications = store.notifications.filter {
        purchase == nil || $0.content.transaction?.originalTransactionId == purchase
      }
      return try .json(.ok, NotificationsAnswer(notifications: notifications.map(NotificationAnswer.init)))
    }
    on(.post, "/control/notifications/{uuid}/send", &router) { request in
      let uuid: String = try request.parameters.require("uuid")
      await store.deliver(uuid)
      guard let notification = store.notification(uuid) else {
        throw Problem.notFound("The store has sent no such notification.")
      }
      return try .json(.ok, NotificationAnswer(notification))
    }
  }

  private func buy(_ request: Request) async throws -> Response {
    let body = try request.decodeJSON(PurchaseParameters.self)
    let environment = body.environment ?? environment
    let account = body.account ?? "account-\(UUID().uuidString.lowercased())"
    var purchase = try body.request(
      introductoryOffer: store.app(body.bundleID)?.products[body.productID]?.introductoryOffer)
    purchase.accountID = account
    let outcome = try store.buy(purchase, in: environment)
    let (appTransaction, signedAppTransaction) = try store.appTransaction(
      of: body.bundleID, accountID: account, in: environment)
    return try .json(
      .created,
      PurchaseAnswer(
        transactionID: outcome.transactionID, originalTransactionID: outcome.originalTransactionID,
        account: account, appTransactionID: appTransaction.appTransactionId,
        signedTransaction: outcome.signedTransaction, signedRenewalInfo: outcome.signedRenewalInfo,
        signedAppTransaction: signedAppTransaction,
        notification: await delivered(outcome.notification, for: request),
        others: await delivered(outcome.others, for: request)))
  }

  /// Sends a new notification, unless `?deliver=false` holds it back, and waits for the outcome.
  func delivered(
    _ notification: SignedNotification, for request: Request
  ) async -> NotificationAnswer {
    if request.query["deliver"] != "false" { await store.deliver(notification.uuid) }
    return NotificationAnswer(store.notification(notification.uuid) ?? notification)
  }

  /// The same for what else is sent, one after the other, as the order is part of the story.
  private func delivered(
    _ notifications: [SignedNotification], for request: Request
  ) async -> [NotificationAnswer] {
    var answers: [NotificationAnswer] = []
    for notification in notifications { answers.append(await delivered(notification, for: request)) }
    return answers
  }

  func on(
    _ method: HTTPRequest.Method, _ pattern: String, _ router: inout Router,
    _ handler: @escaping @Sendable (Request) async throws -> Response
  ) {
    router.on(method, pattern) { request in
      try Self.checkCaller(request.remoteAddress)
      do {
        return try await handler(request)
      } catch let refusal as StoreRefusal {
        throw Problem(refusal)
      }
    }
  }
}

extension ControlRoutes {
  /// Refuses a caller on another machine.
  static func checkCaller(_ address: SocketAddress) throws(Problem) {
    guard ["127.0.0.1", "::1"].contains(address.host) else {
      throw Problem(
        status: .forbidden, code: "forbidden", title: "The control API answers only to its own machine.",
        detail: "The request came from \(address.host).")
    }
  }
}

extension Problem {
  /// What the store would not do: 404 for a name that it does not know, else 409.
  init(_ refusal: StoreRefusal) {
    self.init(
      status: refusal.isUnknownName ? .notFound : .conflict,
      code: refusal.isUnknownName ? .notFound : "refused", title: "The App Store would not do this.",
      detail: refusal.message, message: refusal.message)
  }
}
