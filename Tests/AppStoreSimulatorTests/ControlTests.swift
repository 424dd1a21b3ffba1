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

  @Test func `a request without a simulator says where nothing answers and what to start`() async throws {
    let server = try await SimulatorServer(store: SimulatedAppStore())
    let address = "http://\(try server.start())"
    await server.shutdown()
    let error = await #expect(throws: ControlClient.Unreachable.self) {
      _ = try await ControlClient(base: address).send(.get, "/control/notifications")
    }
    #expect(
      error?.description
        == "nothing answers at \(address); start `appstore-simulator serve` or `appstore-simulator xcode`, or name its address with --url"
    )
  }

  private struct Fixture {
    let store: SimulatedAppStore
    let webhook: Webhook
    let client: ControlClient

    func post(_ path: String, _ body: JSON = [:]) async throws -> JSON {
      try await client.call(.post, path, body)
    }

    func command(_ command: String, on id: String, _ parameters: JSON = [:]) async throws -> JSON {
      try await post("/control/subscriptions/\(id)/\(command)", parameters)
    }

    func get(_ path: String) async throws -> JSON { try await client.call(.get, path) }
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
    let app: JSON = [
      "bundleID": "com.example", "appAppleID": 7,
      "products": ["pro.monthly": ["tier": "pro"], "pro.annual": ["tier": "pro"]],
    ]
    _ = try await fixture.post("/control/apps", app)
  }

  @Test func `a purchase is answered after its notification was delivered`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let token = UUID().uuidString
      let bought = try await fixture.post(
        "/control/purchases",
        [
          "bundleID": "com.example", "productID": "pro.monthly", "account": "ann",
          "appAccountToken": .string(token),
        ])
      let id = try #require(bought["originalTransactionID"]?.string)
      #expect(bought["transactionID"]?.string == id)
      #expect(bought["notification"]?["type"]?.string == "SUBSCRIBED")
      let attempt = bought["notification"]?["attempts"]?[0]
      #expect(attempt?["outcome"] == ["result": "SUCCESS", "status": 200])
      let signedPayload = try #require(bought["notification"]?["signedPayload"]?.string)
      #expect(fixture.webhook.signedPayloads == [signedPayload])

      let verifier = SignedDataVerifier(
        roots: try TrustedRoots(files: [fixture.store.identity.authority.rootDER]))
      let signedTransaction = try #require(bought["signedTransaction"]?.string)
      let transaction = try verifier.transaction(signedTransaction).payload
      #expect(transaction.appAccountToken == UUID(uuidString: token))
      let downloaded = try await fixture.post(
        "/control/app-transactions", ["bundleID": "com.example", "account": "ann"])
      let signedAppTransaction = try #require(downloaded["signedAppTransaction"]?.string)
      let app = try verifier.appTransaction(signedAppTransaction).payload
      #expect(app.appTransactionId == transaction.appTransactionId)
      let signedRenewalInfo = try #require(bought["signedRenewalInfo"]?.string)
      #expect(try verifier.renewalInfo(signedRenewalInfo).payload.originalTransactionId == id)
    }
  }

  @Test func `commands drive a subscription through its life`() async throws {
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

      let off = try await fixture.command("auto-renew", on: id, ["on": false])
      #expect(off["notification"]?["subtype"]?.string == "AUTO_RENEW_DISABLED")
      let refunded = try await fixture.command("refund", on: id, ["transactionID": .string(id)])
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

  @Test func `a notification can be held back and sent twice`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let held = try await fixture.post(
        "/control/purchases?deliver=false", ["bundleID": "com.example", "productID": "pro.monthly"])
      let notification = try #require(held["notification"])
      let uuid = try #require(notification["uuid"]?.string)
      #expect(notification["attempts"] == [])
      #expect(fixture.webhook.signedPayloads.isEmpty)
      for attempt in 1...2 {
        let sent = try await fixture.post("/control/notifications/\(uuid)/send")
        #expect(sent["attempts"]?.array?.count == attempt)
      }
      let signedPayload = try #require(notification["signedPayload"]?.string)
      #expect(fixture.webhook.signedPayloads == [signedPayload, signedPayload])
    }
  }

  @Test func `an unreachable webhook is reported and can be changed`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      // Nothing listens on port 9.
      _ = try await fixture.post("/control/webhook", ["url": "http://127.0.0.1:9/"])
      let test = try await fixture.post("/control/test", ["bundleID": "com.example"])
      #expect(test["type"]?.string == "TEST")
      #expect(test["attempts"]?[0]?["outcome"] == ["result": "SOCKET_ISSUE"])
      _ = try await fixture.post("/control/webhook")
      let silent = try await fixture.post("/control/test", ["bundleID": "com.example"])
      #expect(silent["attempts"] == [])
    }
  }

  @Test func `offers and families have commands`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let answer = try await fixture.post(
        "/control/purchases",
        [
          "bundleID": "com.example", "productID": "pro.monthly", "account": "ann", "announcesOffer": true,
          "offer": ["type": 3, "identifier": "SPRING"],
        ])
      let id = try #require(answer["originalTransactionID"]?.string)
      #expect(answer["notification"]?["type"]?.string == "OFFER_REDEEMED")
      #expect(answer["notification"]?["subtype"]?.string == "INITIAL_BUY")

      let shared = try await fixture.command("share", on: id)
      let member = try #require(shared["originalTransactionID"]?.string)
      #expect(member != id)
      let redeemed = try await fixture.command("redeem", on: id, ["offer": ["type": 2]])
      #expect(redeemed["notification"]?["type"]?.string == "OFFER_REDEEMED")
      #expect(redeemed["others"]?.array?.first?["originalTransactionID"]?.string == member)
      let attempt = redeemed["others"]?.array?.first?["attempts"]?[0]
      #expect(attempt?["outcome"]?["status"]?.number == 200)
      let failed = try await fixture.command("fail-extension", on: id)
      #expect(failed["notification"]?["type"]?.string == "RENEWAL_EXTENSION")
      #expect(fixture.webhook.signedPayloads.count == fixture.store.notifications.count)
    }
  }

  @Test func `every command has its parameters`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      let bought = try await fixture.post(
        "/control/purchases", ["bundleID": "com.example", "productID": "pro.monthly", "freeTrial": true])
      let id = try #require(bought["originalTransactionID"]?.string)
      let commands: [(String, JSON, String)] = [
        ("extend", ["days": 3], "RENEWAL_EXTENDED"), ("renew", [:], "DID_RENEW"),
        ("change-product", ["productID": "pro.annual"], "DID_CHANGE_RENEWAL_PREF"),
        ("announce-price", ["price": 5990], "PRICE_INCREASE"), ("accept-price", [:], "PRICE_INCREASE"),
        ("fail-renewal", ["grace": true], "DID_FAIL_TO_RENEW"), ("recover", [:], "DID_RENEW"),
        ("request-consumption", ["reason": "LEGAL"], "CONSUMPTION_REQUEST"),
        ("decline-refund", [:], "REFUND_DECLINED"), ("refund", ["percentage": 40], "REFUND"),
        ("reverse-refund", [:], "REFUND_REVERSED"),
      ]
      for (command, parameters, type) in commands {
        let answer = try await fixture.command(command, on: id, parameters)
        #expect(answer["notification"]?["type"]?.string == type, "\(command)")
      }
      let old = try await fixture.post(
        "/control/purchases",
        ["bundleID": "com.example", "productID": "pro.monthly", "purchaseDate": "2020-01-01T00:00:00Z"])
      let ended = try await fixture.command(
        "expire", on: try #require(old["originalTransactionID"]?.string), ["reason": 4])
      #expect(ended["notification"]?["subtype"]?.string == "PRODUCT_NOT_FOR_SALE")
    }
  }

  @Test func `a pending purchase is approved or declined, in its environment`() async throws {
    try await Self.withServers { fixture in
      try await Self.putApp(fixture)
      func ask() async throws -> String {
        let asked = try await fixture.post(
          "/control/pending-purchases?environment=Sandbox",
          ["bundleID": "com.example", "productID": "pro.monthly"])
        return "/control/pending-purchases/\(try #require(asked["requestID"]?.string))"
      }
      let approved = try await fixture.post(try await ask() + "/approve?environment=Sandbox")
      #expect(approved["notification"]?["environment"]?.string == "Sandbox")
      _ = try await fixture.post(try await ask() + "/decline?environment=Sandbox")
      #expect(fixture.store.notifications.count == 1)
    }
  }

  @Test func `a refused command is a conflict, and an unknown name is not found`()
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

  @Test func `the control API answers only to its own machine`() throws {
    for host in ["192.0.2.1", "10.0.0.7", "2001:db8::1"] {
      #expect(throws: Problem.self) { try ControlRoutes.checkCaller(SocketAddress(host: host, port: 1)) }
    }
    for host in ["127.0.0.1", "::1"] {
      try ControlRoutes.checkCaller(SocketAddress(host: host, port: 1))
    }
  }
}
