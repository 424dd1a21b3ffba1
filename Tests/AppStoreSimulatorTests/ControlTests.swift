import AppStore
import Foundation
import HTTP
import HTTPTypes
import Logging
import Synchronization
import Testing

@testable import AppStoreSimulator

/// The control API over real sockets, with a real webhook server.
struct ControlTests {
  /// A webhook that records its requests.
  private final class Webhook: Sendable {
    private let bodies = Mutex<[String]>([])

    var signedPayloads: [String] { bodies.withLock { $0 } }

    func serve() throws -> (server: HTTPServer, url: String) {
      struct Body: Decodable { let signedPayload: String }
      var router = Router()
      router.on(.post, "/webhook") { request in
        let payload = try request.decodeJSON(Body.self).signedPayload
        self.bodies.withLock { $0.append(payload) }
        return .empty(.ok)
      }
      let server = HTTPServer(
        configuration: HTTPServerConfiguration(), router: router, logger: Logger(label: "webhook"))
      return (server, "http://\(try server.start())/webhook")
    }
  }

  private struct Fixture {
    let store: SimulatedAppStore
    let webhook: Webhook
    let client: ControlClient

    func post(_ path: String, _ body: [String: String] = [:]) async throws -> JSON {
      try await decode(client.post(path, body))
    }

    func command(_ command: String, on id: String, _ parameters: CommandParameters = .init()) async throws
      -> JSON
    {
      try await decode(client.post("/control/subscriptions/\(id)/\(command)", parameters))
    }

    func get(_ path: String) async throws -> JSON { try await decode(client.get(path)) }

    private func decode(_ bytes: [UInt8]) throws -> JSON {
      bytes.isEmpty ? .null : try JSONDecoder().decode(JSON.self, from: Data(bytes))
    }
  }

  private static func withServers(_ body: (Fixture) async throws -> Void) async throws {
    let webhook = Webhook()
    let (receiver, url) = try webhook.serve()
    let store = try SimulatedAppStore(webhook: url)
    let server = try await SimulatorServer(store: store)
    let client = ControlClient(base: "http://\(try server.start())")
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(Fixture(store: store, webhook: webhook, client: client)))
    } catch {
      result = .failure(error)
    }
    await server.shutdown()
    await receiver.shutdown(within: .seconds(2))
    try result.get()
  }

  private static func putApp(_ fixture: Fixture) async throws {
    struct App: Encodable {
      let bundleID = "com.example"
      let appAppleID = 7
      let products = ["pro.monthly": ["tier": "pro"], "pro.annual": ["tier": "pro"]]
    }
    _ = try await fixture.client.post("/control/apps", App())
  }

  @Test func `the control API responds to a purchase after its notification was delivered`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let token = UUID().uuidString
      let bought = try await fixture.post(
        "/control/purchases",
        ["bundleID": "com.example", "productID": "pro.monthly", "appAccountToken": token])
      let id = try #require(bought["originalTransactionID"]?.string)
      #expect(bought["transactionID"]?.string == id)
      #expect(bought["notification"]?["type"]?.string == "SUBSCRIBED")
      #expect(bought["notification"]?["delivery"]?["result"]?.string == "SUCCESS")
      #expect(bought["notification"]?["delivery"]?["status"]?.number == 200)
      let signedPayload = try #require(bought["notification"]?["signedPayload"]?.string)
      #expect(fixture.webhook.signedPayloads == [signedPayload])

      let verifier = SignedDataVerifier(
        roots: try TrustedRoots(files: [fixture.store.identity.authority.rootDER]))
      let signedTransaction = try #require(bought["signedTransaction"]?.string)
      let transaction = try verifier.transaction(signedTransaction).payload
      #expect(transaction.appAccountToken == UUID(uuidString: token))
      let signedAppTransaction = try #require(bought["signedAppTransaction"]?.string)
      let app = try verifier.appTransaction(signedAppTransaction).payload
      #expect(app.appTransactionId == transaction.appTransactionId)
      #expect(app.appTransactionId == bought["appTransactionID"]?.string)
      let signedRenewalInfo = try #require(bought["signedRenewalInfo"]?.string)
      #expect(try verifier.renewalInfo(signedRenewalInfo).payload.originalTransactionId == id)
    }
  }

  @Test func `control commands renew, change and refund a subscription and deliver each notification`()
    async throws
  {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let bought = try await fixture.post(
        "/control/purchases",
        ["bundleID": "com.example", "productID": "pro.monthly", "purchaseDate": "2026-01-01T00:00:00Z"])
      let id = try #require(bought["originalTransactionID"]?.string)
      #expect(try await fixture.get("/control/truth/\(id)")["status"]?.number == 2)

      let renewed = try await fixture.command("renew", on: id)
      #expect(renewed["originalTransactionID"]?.string == id)
      #expect(renewed["transactionID"]?.string != id)
      #expect(renewed["notification"]?["type"]?.string == "DID_RENEW")
      #expect(try await fixture.get("/control/truth/\(id)")["status"]?.number == 1)

      var parameters = CommandParameters()
      parameters.on = false
      let off = try await fixture.command("auto-renew", on: id, parameters)
      #expect(off["notification"]?["subtype"]?.string == "AUTO_RENEW_DISABLED")
      parameters = CommandParameters()
      parameters.transactionID = id
      let refunded = try await fixture.command("refund", on: id, parameters)
      #expect(refunded["transactionID"]?.string == id)
      #expect(refunded["notification"]?["type"]?.string == "REFUND")
      let truth = try await fixture.get("/control/truth/\(id)")
      #expect(truth["status"]?.number == 1)
      #expect(truth["autoRenews"]?.bool == false)
      #expect(truth["transactionID"]?.string == renewed["transactionID"]?.string)

      let all = try await fixture.get("/control/notifications?originalTransactionID=\(id)")
      #expect(
        all["notifications"]?.array?.compactMap { $0["type"]?.string } == [
          "SUBSCRIBED", "DID_RENEW", "DID_CHANGE_RENEWAL_STATUS", "REFUND",
        ])
      #expect(fixture.webhook.signedPayloads.count == 4)
    }
  }

  @Test func `the control API can hold a notification back and send it twice`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let held = try await fixture.post(
        "/control/purchases?deliver=false", ["bundleID": "com.example", "productID": "pro.monthly"])
      let notification = try #require(held["notification"])
      let uuid = try #require(notification["uuid"]?.string)
      #expect(notification["delivery"] == nil)
      #expect(fixture.webhook.signedPayloads.isEmpty)
      for attempt in 1...2 {
        let sent = try await fixture.post("/control/notifications/\(uuid)/send")
        #expect(sent["attempts"]?.number == Int64(attempt))
      }
      let signedPayload = try #require(notification["signedPayload"]?.string)
      #expect(fixture.webhook.signedPayloads == [signedPayload, signedPayload])
    }
  }

  @Test func `the control API reports an unreachable webhook, and the webhook can be changed`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      // Nothing listens on port 9.
      _ = try await fixture.post("/control/webhook", ["url": "http://127.0.0.1:9/"])
      let test = try await fixture.post("/control/test", ["bundleID": "com.example"])
      #expect(test["type"]?.string == "TEST")
      #expect(test["delivery"]?["result"]?.string == "SOCKET_ISSUE")
      #expect(test["delivery"]?["status"] == nil)
      _ = try await fixture.post("/control/webhook")
      let silent = try await fixture.post("/control/test", ["bundleID": "com.example"])
      #expect(silent["delivery"] == nil)
    }
  }

  @Test func `the control API has commands for offers, Family Sharing and announcements`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      var purchase = PurchaseParameters(bundleID: "com.example", productID: "pro.monthly")
      purchase.offer = OfferParameters(type: "offer-code")
      purchase.announcesOffer = true
      purchase.account = "ann"
      let bought = try await fixture.client.post("/control/purchases", purchase)
      let answer = try JSONDecoder().decode(JSON.self, from: Data(bought))
      let id = try #require(answer["originalTransactionID"]?.string)
      #expect(answer["notification"]?["type"]?.string == "OFFER_REDEEMED")
      #expect(answer["notification"]?["subtype"]?.string == "INITIAL_BUY")

      let shared = try await fixture.command("share", on: id)
      let member = try #require(shared["originalTransactionID"]?.string)
      #expect(member != id)
      var parameters = CommandParameters()
      parameters.offer = OfferParameters(type: "promotional")
      let redeemed = try await fixture.command("redeem", on: id, parameters)
      #expect(redeemed["notification"]?["type"]?.string == "OFFER_REDEEMED")
      #expect(redeemed["others"]?.array?.first?["originalTransactionID"]?.string == member)
      #expect(redeemed["others"]?.array?.first?["delivery"]?["status"]?.number == 200)
      let failed = try await fixture.command("fail-extension", on: id)
      #expect(failed["notification"]?["type"]?.string == "RENEWAL_EXTENSION")

      let token = try await fixture.post("/control/external-purchases", ["bundleID": "com.example"])
      #expect(token["subtype"]?.string == "CREATED")
      let external = try #require(token["externalPurchaseID"]?.string)
      let missed = try await fixture.post(
        "/control/external-purchases",
        ["bundleID": "com.example", "event": "unreported", "externalPurchaseID": external])
      #expect(missed["subtype"]?.string == "UNREPORTED")
      let rescinded = try await fixture.post("/control/rescinded-consents", ["bundleID": "com.example"])
      #expect(rescinded["type"]?.string == "RESCIND_CONSENT")
      #expect(fixture.webhook.signedPayloads.count == fixture.store.notifications.count)
    }
  }

  @Test func `a refused control command gets 409, and an unknown name gets 404`()
    async throws
  {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let bought = try await fixture.post(
        "/control/purchases", ["bundleID": "com.example", "productID": "pro.monthly"])
      let id = try #require(bought["originalTransactionID"]?.string)
      for (path, status) in [
        ("/control/subscriptions/\(id)/expire", 409), ("/control/subscriptions/\(id)/nonsense", 404),
        ("/control/subscriptions/\(id)/auto-renew", 400), ("/control/subscriptions/1/renew", 404),
        ("/control/notifications/1/send", 404),
      ] {
        let failure = await #expect(throws: ControlClient.Failure.self) { try await fixture.post(path) }
        #expect(failure?.status == status, "\(path)")
      }
      let unknown = await #expect(throws: ControlClient.Failure.self) {
        try await fixture.get("/control/truth/1")
      }
      #expect(unknown?.status == 404)
      #expect(fixture.store.notifications.count == 1)
    }
  }

  @Test func `the control API accepts requests from its own machine only`() throws {
    for host in ["192.0.2.1", "10.0.0.7", "2001:db8::1"] {
      #expect(throws: Problem.self) { try ControlRoutes.checkCaller(SocketAddress(host: host, port: 1)) }
    }
    for host in ["127.0.0.1", "::1"] {
      try ControlRoutes.checkCaller(SocketAddress(host: host, port: 1))
    }
  }
}
