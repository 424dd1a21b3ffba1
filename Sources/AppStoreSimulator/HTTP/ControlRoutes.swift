import AppStore
import Foundation
import HTTP
import HTTPTypes

/// The control API, which changes the store. It has no authorization and therefore answers only to this machine.
struct ControlRoutes: Sendable {
  let store: SimulatedAppStore
  /// The environment of purchases that name none.
  let environment: Environment

  func add(to router: inout Router) {
    addPurchases(to: &router)
    addAskToBuy(to: &router)
    addNotifications(to: &router)
    addClock(to: &router)
    addLives(to: &router)
    addFaults(to: &router)
    addServerAPI(to: &router)
  }

  private func addPurchases(to router: inout Router) {
    on(.post, "/control/apps", &router) { request in
      store.put(try request.decodeJSON(CatalogApp.self).app)
      return .empty(.noContent)
    }
    on(.post, "/control/purchases", &router) { try await buy($0) }
    on(.post, "/control/subscriptions/{originalTransactionID}/{command}", &router) { request in
      let body = request.body.isEmpty ? CommandParameters() : try request.decodeJSON(CommandParameters.self)
      let outcome = try store.perform(
        SubscriptionCommand(named: request.parameters.require("command"), body),
        on: request.parameters.require("originalTransactionID"))
      return try .json(.ok, await answer(outcome, to: request))
    }
    on(.post, "/control/app-transactions", &router) { request in
      let body = try request.decodeJSON(AppTransactionBody.self)
      let (payload, signed) = try store.appTransaction(
        of: body.bundleID, accountID: body.account, originalPurchaseDate: body.originalPurchaseDate,
        originalVersion: body.originalApplicationVersion, in: body.environment ?? environment)
      return try .json(
        .ok, AppTransactionAnswer(appTransactionID: payload.appTransactionId, signedAppTransaction: signed))
    }
    addAnnouncements(to: &router)
    on(.get, "/control/truth/{transactionID}", &router) { request in
      guard let truth = store.truth(of: try request.parameters.require("transactionID")) else {
        throw Problem.notFound("The store has no such transaction.")
      }
      // Milliseconds, the precision of signed dates, so that a test can compare rows with it.
      return try .json(.ok, truth, times: .milliseconds)
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
    var answer = await answer(outcome, to: request)
    answer.account = account
    answer.appTransactionID = appTransaction.appTransactionId
    answer.signedAppTransaction = signedAppTransaction
    return try .json(.created, answer)
  }

  /// Delivers the notifications of an outcome and makes the answer.
  func answer(_ outcome: SignedOutcome, to request: Request) async -> OutcomeAnswer {
    OutcomeAnswer(
      transactionID: outcome.transactionID, originalTransactionID: outcome.originalTransactionID,
      orderID: outcome.orderID, signedTransaction: outcome.signedTransaction,
      signedRenewalInfo: outcome.signedRenewalInfo,
      notification: await delivered(outcome.notification, for: request),
      others: await delivered(outcome.others, for: request))
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
      } catch let refusal as VirtualClock.Refusal {
        throw Problem.refused(refusal.message)
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
  /// A refusal by the store: 404 for an unknown name, else 409.
  init(_ refusal: StoreRefusal) {
    self.init(
      status: refusal.isUnknownName ? .notFound : .conflict,
      code: refusal.isUnknownName ? .notFound : "refused", title: "The App Store would not do this.",
      detail: refusal.message, message: refusal.message)
  }

  /// 409 for a request that the simulator cannot carry out.
  static func refused(_ message: String) -> Problem {
    Problem(
      status: .conflict, code: "refused", title: "The simulator cannot do this.", detail: message,
      message: message)
  }
}
