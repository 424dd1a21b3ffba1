import AppStore
import Foundation
import HTTP
import HTTPTypes

/// The control API, which changes the store. It has no authorization and therefore answers only to this machine.
///
/// Every answer is a 200 with JSON. The query `environment` names the environment, and `deliver=false` holds the
/// notifications that a request causes.
struct ControlRoutes: Sendable {
  let store: SimulatedAppStore
  /// The environment of requests that name none.
  let environment: Environment

  /// The answer of a route that has nothing to tell.
  struct Done: Encodable {}

  func add(to router: inout Router) {
    addStore(to: &router)
    addCustomers(to: &router)
    addNotifications(to: &router)
    addFaults(to: &router)
    addLives(to: &router)
  }

  func on(
    _ method: HTTPRequest.Method, _ pattern: String, _ router: inout Router,
    _ handler: @escaping @Sendable (Request) async throws -> any Encodable
  ) {
    router.on(method, "/control/" + pattern) { request in
      try Self.checkCaller(request.remoteAddress)
      do {
        // Milliseconds, the precision of signed dates, so that a test can compare rows with the truth.
        return try .json(.ok, await handler(request), times: .milliseconds)
      } catch let refusal as StoreRefusal {
        throw refusal.isUnknownName ? Problem.notFound(refusal.message) : Problem.refused(refusal.message)
      } catch let refusal as VirtualClock.GoesBack {
        throw Problem.refused("time never goes back, and it is \(refusal.now.formatted(.iso8601))")
      }
    }
  }

  func environment(of request: Request) -> Environment {
    request.query["environment"].map(Environment.init(rawValue:)) ?? environment
  }

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
  /// 409 for a request that the simulator refuses.
  fileprivate static func refused(_ message: String) -> Problem {
    Problem(
      status: .conflict, code: "refused", title: "The App Store would not do this.", detail: message,
      message: message)
  }
}

extension ControlRoutes {
  /// Adds the routes for the apps, the clock, and the state of the store.
  func addStore(to router: inout Router) {
    on(.post, "apps", &router) { request in
      store.put(try request.decodeJSON(StoreApp.self))
      return Done()
    }
    on(.get, "clock", &router) { _ in ClockAnswer(now: store.clock.now) }
    on(.post, "clock", &router) { request in
      let change = try request.decodeJSON(ClockChange.self)
      if let now = change.now { try store.clock.set(to: now) }
      if let period = change.advance {
        try store.clock.set(to: store.timeScale.date(store.clock.now, adding: period))
      }
      // Deliver first, so that a script finds all due notifications sent.
      await store.deliverDue()
      return ClockAnswer(now: store.clock.now)
    }
    on(.get, "truth/{transactionID}", &router) { request in
      guard let truth = store.truth(of: try request.parameters.require("transactionID")) else {
        throw Problem.notFound("The store has no such transaction.")
      }
      return truth
    }
    on(.get, "consumption", &router) { _ in ["reports": store.consumptionReports] }
  }
}

/// The body of `POST /control/clock`. Its members are applied in this order.
private struct ClockChange: Decodable {
  /// The later time to set.
  let now: Date?
  /// The period of the store's time to advance.
  let advance: StorePeriod?
}

private struct ClockAnswer: Encodable {
  let now: Date
}

extension ControlRoutes {
  /// Adds the routes for purchases and what follows them.
  func addCustomers(to router: inout Router) {
    on(.post, "purchases", &router) { request in
      let outcome = try store.buy(request.decodeJSON(PurchaseRequest.self), in: environment(of: request))
      return await delivered(outcome, for: request)
    }
    on(.post, "pending-purchases", &router) { request in
      let purchase = try request.decodeJSON(PurchaseRequest.self)
      return ["requestID": try store.ask(purchase, in: environment(of: request))]
    }
    on(.post, "pending-purchases/{requestID}/approve", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      return await delivered(try store.approve(id, in: environment(of: request)), for: request)
    }
    on(.post, "pending-purchases/{requestID}/decline", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      try store.decline(id, in: environment(of: request))
      return Done()
    }
    on(.post, "subscriptions/{originalTransactionID}/{command}", &router) { request in
      let command = try Self.command(of: request)
      let outcome = try store.perform(command, on: request.parameters.require("originalTransactionID"))
      return await delivered(outcome, for: request)
    }
    on(.post, "app-transactions", &router) { request in
      let body = try request.decodeJSON(AppTransactionBody.self)
      let signed = try store.appTransaction(
        of: body.bundleID, accountID: body.account, originalPurchaseDate: body.originalPurchaseDate,
        in: environment(of: request)
      ).signed
      return ["signedAppTransaction": signed]
    }
  }

  /// Decodes a command from its name in the path and its parameters in the body.
  private static func command(of request: Request) throws -> SubscriptionCommand {
    let name: String = try request.parameters.require("command")
    guard SubscriptionCommand.CodingKeys(rawValue: name) != nil else {
      throw Problem.notFound("There is no command \(name).")
    }
    let parameters = request.body.isEmpty ? Array("{}".utf8) : request.body
    return try JSONCoding.decode(from: Array("{\"\(name)\":".utf8) + parameters + Array("}".utf8))
  }

  /// Sends the notifications of an outcome.
  private func delivered(_ outcome: SignedOutcome, for request: Request) async -> SignedOutcome {
    var outcome = outcome
    outcome.notification = await delivered(outcome.notification, for: request)
    for index in outcome.others.indices {
      outcome.others[index] = await delivered(outcome.others[index], for: request)
    }
    return outcome
  }
}

private struct AppTransactionBody: Decodable {
  let bundleID: String
  let account: String?
  let originalPurchaseDate: Date?
}

extension ControlRoutes {
  func addNotifications(to router: inout Router) {
    on(.post, "webhook", &router) { request in
      let body = try request.decodeJSON(WebhookBody.self)
      store.setWebhook(body.url)
      if let retries = body.retries { store.setRetries(retries) }
      return Done()
    }
    on(.post, "test", &router) { request in
      let bundleID = try request.decodeJSON(TestBody.self).bundleID
      return await delivered(
        try store.test(bundleID: bundleID, in: environment(of: request)), for: request)
    }
    on(.get, "notifications", &router) { request in
      let purchase = request.query["originalTransactionID"]
      let notifications = store.notifications.filter {
        purchase == nil || $0.content.transaction?.originalTransactionId == purchase
      }
      return ["notifications": notifications]
    }
    on(.post, "notifications/{uuid}/send", &router) { request in
      let uuid: String = try request.parameters.require("uuid")
      await store.send(uuid)
      guard let notification = store.notification(uuid) else {
        throw Problem.notFound("The store has sent no such notification.")
      }
      return notification
    }
  }

  /// Sends a new notification, unless the query has `deliver=false`, and waits for the outcome.
  func delivered(_ notification: SignedNotification, for request: Request) async -> SignedNotification {
    if request.query["deliver"] != "false" { await store.deliver(notification.uuid) }
    return store.notification(notification.uuid) ?? notification
  }
}

private struct WebhookBody: Decodable {
  let url: String?
  let retries: Bool?
}

private struct TestBody: Decodable {
  let bundleID: String
}

extension ControlRoutes {
  func addFaults(to router: inout Router) {
    on(.get, "faults", &router) { _ in faults }
    on(.put, "faults/delivery", &router) { request in
      await store.setDeliveryFaults(try request.decodeJSON(DeliveryFaults.self))
      return faults
    }
    on(.post, "faults/api", &router) { request in
      let fault = try request.decodeJSON(ServerFault.self)
      if fault.fault == .error, fault.code == nil { throw Problem.invalidRequest("'code' is missing.") }
      guard (0...Self.longestDelay).contains(fault.delay ?? 0) else {
        throw Problem.invalidRequest("'delay' must be at most \(Self.longestDelay) seconds.")
      }
      store.add(fault)
      return faults
    }
    on(.delete, "faults/api", &router) { _ in
      store.clearServerFaults()
      return faults
    }
  }

  /// The longest delay in seconds, below the server's handler deadline.
  static let longestDelay = 100.0

  private var faults: FaultsAnswer {
    FaultsAnswer(delivery: store.deliveryFaults, api: store.serverFaults)
  }
}

private struct FaultsAnswer: Encodable {
  let delivery: DeliveryFaults
  let api: [ServerFault]
}

extension ControlRoutes {
  private static let maximumLives: UInt64 = 100

  /// Adds the route for random lives. Each begins at the store's time, or at the body's start, and the clock advances
  /// to its end.
  func addLives(to router: inout Router) {
    on(.post, "lives", &router) { request in
      let body = try request.decodeJSON(LivesBody.self)
      let count = body.count ?? 1
      guard (1...Self.maximumLives).contains(count), body.seed <= UInt64.max - count else {
        throw Problem.invalidRequest("'count' must be 1 to \(Self.maximumLives).")
      }
      guard let app = store.app(body.bundleID), !app.products.isEmpty else {
        throw Problem.notFound("No app with something to sell has this bundle id.")
      }
      var lives: [LivesAnswer.Life] = []
      for seed in body.seed..<(body.seed + count) {
        let life = RandomLife(
          seed: seed, app: app, environment: environment(of: request), from: body.from ?? store.clock.now)
        let notifications = try store.remember(life)
        // Another request may have set the clock further; it never goes back.
        try? store.clock.set(to: life.end)
        for notification in notifications { _ = await delivered(notification, for: request) }
        lives.append(
          LivesAnswer.Life(
            seed: seed, purchases: life.purchases, notifications: notifications.count,
            history: life.description))
      }
      return LivesAnswer(lives: lives, now: store.clock.now)
    }
  }
}

/// The body of `POST /control/lives`.
private struct LivesBody: Decodable {
  /// The app of the customers.
  let bundleID: String
  /// The seed of the first life; each following life has the next seed.
  let seed: UInt64
  /// The number of lives; one by default.
  let count: UInt64?
  /// The common start of all lives; by default they follow each other from the store's time.
  let from: Date?
}

private struct LivesAnswer: Encodable {
  struct Life: Encodable {
    let seed: UInt64
    /// The original transaction ids of all purchases and shares.
    let purchases: [String]
    let notifications: Int
    /// The history as readable text.
    let history: String
  }

  let lives: [Life]
  /// The store's time afterwards.
  let now: Date
}
