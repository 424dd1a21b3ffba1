import AppStore
import AppStoreSimulator
import Crypto
import Curl
import Foundation
import HTTP
import HTTPTypes
import JWTKit
import Logging
import Postgres
import TestDatabase
import Testing

/// The log of `receiptd serve` at `LOG_LEVEL=trace` has no secrets.
@Suite struct LogSecrecyTests {
  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL
  private static let bundleID = "com.example.secrecy"
  private static let product = "com.example.secrecy.monthly"
  private static let deviceBundleID = "com.example.secrecy.devices"
  private static let device = "6F1C2B7E-9D0A-4E55-8C1B-3A4D5E6F7081"
  private static let child = "0B5C7D2E-CHILD"
  private static let typed = "TYPED-7C21-PHONE"
  private static let deviceSecret = "wT9kQ2m7yHq0ZJ4nXv6bLr1sFd8gUe3oPa5iCxNzKtA"
  private static let databasePassword = "open-sesame-4711"
  private static let userSecret = "the shared secret of users, 32 bytes and more"
  private static let supportToken = "the-support-tool-is-let-in-by-this"
  private static let webhookSecret =
    "whsec_" + Data((0..<32).map { UInt8($0 &* 7) }).base64EncodedString()
  private static let trace = "0af7651916cd43dd8448eb211c80319c"

  private static func configuration(webhook: String) -> String {
    """
    { "apps": [ { "bundleID": "\(bundleID)", "appAppleID": 1500000011,
      "environments": ["Production"], "customer": "user",
      "products": { "\(product)": { "tier": "premium" } },
      "tiers": { "premium": { "rank": 1, "features": {} } },
      "auth": { "secretEnv": "TEST_JWT_SECRET", "issuer": "https://auth.example", "audience": "authenticated" },
      "webhooks": [
        { "url": "\(webhook)?key=sesame-in-the-query", "secretEnv": "TEST_WEBHOOK_SECRET",
          "allowPrivateAddresses": true },
        { "url": "http://127.0.0.1:1/hook?key=sesame-in-the-query", "secretEnv": "TEST_WEBHOOK_SECRET",
          "allowPrivateAddresses": true } ],
      "writeTo": ["profiles"] },
      { "bundleID": "\(deviceBundleID)", "appAppleID": 1500000012,
      "environments": ["Production"], "customer": "device",
      "products": { "\(deviceBundleID).monthly": { "tier": "family" } },
      "tiers": { "family": { "rank": 1, "features": { "childDevices": 5 } } },
      "trial": { "days": 30, "features": { "childDevices": 5 } } } ] }
    """
  }

  private struct Claims: JWTPayload {
    var sub: String
    var iss: String
    var aud = "authenticated"
    var exp: Int
    func verify(using algorithm: some JWTAlgorithm) async throws {}
  }

  private static func token(
    for user: UUID, secret: String = userSecret, issuer: String = "https://auth.example"
  ) async throws -> String {
    let keys = await JWTKeyCollection().add(
      hmac: HMACKey(key: SymmetricKey(data: Array(secret.utf8))), digestAlgorithm: .sha256)
    return try await keys.sign(
      Claims(
        sub: user.uuidString.lowercased(), iss: issuer, exp: Int(Date().timeIntervalSince1970) + 3_600))
  }

  /// The database's URI with a role that has a password, whether the server asks for one or not.
  private static func uri(_ database: TestDatabase) async throws -> String {
    let role = "receiptd_\(UUID().uuidString.prefix(8).lowercased())"
    try await database.withPool { pool in
      _ = try await pool.query(
        "CREATE ROLE \(unescaped: role) LOGIN SUPERUSER PASSWORD '\(unescaped: databasePassword)'")
    }
    let rest = database.uri.firstRange(of: "@").map { database.uri[$0.upperBound...] }
    let host = try #require(rest ?? database.uri.firstRange(of: "://").map { database.uri[$0.upperBound...] })
    return "postgresql://\(role):\(databasePassword)@\(host)"
  }

  @Test func `at LOG_LEVEL trace the log has no secret, no signed data and no customer id`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let receiver = try Receiver()
    let store = try SimulatedAppStore(
      apps: [
        StoreApp(bundleID: Self.bundleID, appAppleID: 1_500_000_011, products: [.subscription(Self.product)]),
        StoreApp(
          bundleID: Self.deviceBundleID, appAppleID: 1_500_000_012,
          products: [.subscription(Self.deviceBundleID + ".monthly")]),
      ], seed: 11)
    let storeServer = try await SimulatorServer(store: store, logger: .silent)
    let storeAddress = try storeServer.start()
    let (apps, root, key) = (
      folder.appending(path: "apps.json"), folder.appending(path: "root.der"),
      folder.appending(path: "key.p8")
    )
    try Data(Self.configuration(webhook: receiver.url).utf8).write(to: apps)
    try Data(store.identity.authority.rootDER).write(to: root)
    try Data(store.identity.connectKey.pem.utf8).write(to: key)

    try await withTestDatabase { database in
      let environment = [
        "DATABASE_URL": try await Self.uri(database), "RECEIPTD_CONFIG": apps.path,
        "RECEIPTD_MIGRATIONS": Self.project.appending(path: "migrations").path,
        "APP_STORE_ROOTS": root.path, "APP_STORE_URL": "http://\(storeAddress)",
        "APP_STORE_SANDBOX_URL": "http://\(storeAddress)/sandbox", "APP_STORE_KEY": key.path,
        "APP_STORE_KEY_ID": store.identity.connectKey.keyID,
        "APP_STORE_ISSUER_ID": store.identity.connectKey.issuerID, "SUPPORT_TOKEN": Self.supportToken,
        "TEST_JWT_SECRET": Self.userSecret, "TEST_WEBHOOK_SECRET": Self.webhookSecret, "LOG_LEVEL": "trace",
      ]
      let client = CurlClient()
      let receiptd = try ReceiptdProcess(environment: environment, log: folder.appending(path: "log"))
      try await receiptd.awaitReady(client)
      let tale = try await tell(receiptd, store, client)
      try await receiver.waitForEvent()
      let metrics = try await client.send(
        CurlRequest(url: "http://127.0.0.1:\(receiptd.adminPort)/metrics"))
      #expect(await receiptd.stop() == 0)
      await client.shutDown()

      let log = receiptd.logText
      var secrets =
        tale.signed + tale.tokens + [
          Self.deviceSecret, Self.databasePassword, Self.userSecret, Self.supportToken,
          String(Self.webhookSecret.dropFirst(6)),
          "sesame-in-the-query",
        ]
      secrets += store.identity.connectKey.pem.split(separator: "\n").dropFirst().dropLast().map(String.init)
      secrets += receiver.signatures
      for secret in secrets where !secret.isEmpty {
        #expect(!log.contains(secret), "\(secret.prefix(60))")
        #expect(!String(decoding: metrics.body, as: UTF8.self).contains(secret), "\(secret.prefix(60))")
      }
      // The log may have a payload in another form.
      #expect(!log.contains("eyJ"))
      #expect(!log.contains("Bearer "))
      // The log has the template of the route, not the path or the query, which contain ids.
      for id in [Self.device, Self.child, Self.typed, tale.user] where !id.isEmpty {
        #expect(!log.contains(id), "\(id)")
        #expect(!log.contains(id.lowercased()), "\(id)")
        #expect(!String(decoding: metrics.body, as: UTF8.self).contains(id), "\(id)")
      }
      try expectUseful(log)
      #expect(receiver.traces.allSatisfy { $0?.hasPrefix("00-") == true })
    }
    await storeServer.shutdown()
    await receiver.stop()
  }

  /// Checks what the log does have: each response with its request id, its route and its trace.
  private func expectUseful(_ log: String) throws {
    let objects = try log.split(separator: "\n").map {
      try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any], "\($0)")
    }
    let lines = objects.map { $0.compactMapValues { $0 as? String } }
    #expect(lines.allSatisfy { $0["time"] != nil && $0["level"] != nil && $0["message"] != nil })
    let answers = lines.filter { $0["message"] == "answered" }
    #expect(answers.count > 10)
    #expect(answers.allSatisfy { $0["request"] != nil && $0["route"] != nil && $0["method"] != nil })
    #expect(
      Set(answers.compactMap { $0["route"] }).isSuperset(of: [
        "/api/v1/devices/{deviceID}/children", "/api/v1/devices/{deviceID}/children/{childDeviceID}",
        "/api/v1/devices/{deviceID}/entitlements", "/api/v1/profiles/{userID}/premium", "unmatched",
      ]))
    let numbers = objects.filter { $0["message"] as? String == "answered" }
    #expect(numbers.allSatisfy { ($0["duration"] as? Double).map { (0...60).contains($0) } ?? false })
    #expect(numbers.allSatisfy { ($0["status"] as? Int).map { (200...599).contains($0) } ?? false })
    #expect(answers.allSatisfy { $0["trace"]?.utf8.count == 32 })
    // An address is personal data, so only refused requests log it.
    let isRefusal = numbers.map { (400..<500).contains($0["status"] as? Int ?? 0) }
    #expect(answers.map { $0["client"] == "127.0.0.1" } == isRefusal)
    #expect(lines.allSatisfy { $0["client"] == nil || $0["message"] == "answered" })
    // A refusal says why, in which app, and to which customer.
    let refusals = answers.filter { $0["client"] != nil }
    #expect(refusals.allSatisfy { $0["code"] != nil && $0["reason"] != nil })
    let forged = refusals.filter { $0["reason"] == "The access token's signature is wrong." }
    #expect(forged.map { [$0["code"], $0["app"]] } == [["unauthenticated", Self.bundleID]])
    #expect(forged.allSatisfy { $0["customer"]?.utf8.count == 16 })
    // A token with the right signature names its issuer in the log; a forged one cannot put text there.
    let moved = refusals.filter { $0["reason"] == "The access token is of another issuer." }
    #expect(moved.map { $0["tokenIssuer"] } == ["https://moved.example"])
    #expect(!log.contains("forged.example"))
    let unknown = refusals.filter {
      $0["route"] == "/support/v1/customer/{id}" && $0["code"] == "unauthenticated"
    }
    #expect(unknown.count == 2)
    #expect(
      unknown.allSatisfy {
        $0["reason"] == "The token is neither SUPPORT_TOKEN nor that of a person who can sign in."
      })
    let traced = answers.filter { $0["request"] == "the-traced-one" }
    #expect(traced.map { $0["trace"] } == [Self.trace])
    // The lines about the refused notification have a trace id.
    let refused = lines.filter { $0["message"] == "a notification was refused" }
    #expect(!refused.isEmpty && refused.allSatisfy { $0["trace"] != nil })
  }

  private struct Tale {
    var signed: [String] = []
    var tokens: [String] = []
    var user = ""
  }

  /// Sends valid and invalid requests to every route.
  private func tell(
    _ receiptd: ReceiptdProcess, _ store: SimulatedAppStore, _ client: CurlClient
  ) async throws -> Tale {
    var tale = Tale()
    let api = "http://127.0.0.1:\(receiptd.port)/api/v1"
    func say(
      _ method: HTTPRequest.Method, _ url: String, _ body: String, token: String? = nil,
      fields: HTTPFields = [:]
    ) async throws -> Int {
      var headers = fields
      headers[.contentType] = "application/json"
      if let token { headers[.authorization] = "Bearer \(token)" }
      return try await client.send(
        CurlRequest(method: method, url: url, headers: headers, body: Array(body.utf8))
      ).status
    }
    let user = UUID()
    let token = try await Self.token(for: user)
    let stranger = try await Self.token(for: UUID())
    let forged = try await Self.token(
      for: user, secret: "another secret of 32 bytes and even more", issuer: "https://forged.example")
    let moved = try await Self.token(for: user, issuer: "https://moved.example")
    tale.tokens = [token, stranger, forged, moved]
    tale.user = user.uuidString.lowercased()
    let bought = try store.buy(
      PurchaseRequest(bundleID: Self.bundleID, productID: Self.product, appAccountToken: user))
    let renewed = try store.perform(.renew, on: bought.originalTransactionID)
    let refunded = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
      on: bought.originalTransactionID)
    let jws = bought.signedTransaction
    let broken = String(jws.dropLast(8)) + "AAAAAAAA"
    let payloads = [bought, renewed, refunded].map(\.notification.signedPayload)
    tale.signed = [jws, broken] + payloads
    tale.signed += tale.signed.flatMap { $0.split(separator: ".").map(String.init) }

    let (webhook, validate) = (api + "/subscriptions/webhook", api + "/subscriptions/validate")
    for payload in payloads + payloads {
      #expect(try await say(.post, webhook, #"{"signedPayload": "\#(payload)"}"#) == 200)
    }
    let bad = String(payloads[0].dropLast(8)) + "AAAAAAAA"
    #expect(try await say(.post, webhook, #"{"signedPayload": "\#(bad)"}"#) == 401)
    #expect(try await say(.post, webhook, #"{"signedPayload": "\#(jws)"}"#) == 401)
    #expect(try await say(.post, webhook, #"{"signedPayload": "\#(jws)"#) == 400)
    let named: HTTPFields = try [
      #require(HTTPField.Name("x-request-id")): "the-traced-one",
      #require(HTTPField.Name("traceparent")): "00-\(Self.trace)-b7ad6b7169203331-01",
    ]
    let shown = #"{"signedTransaction": "\#(jws)"}"#
    #expect(try await say(.post, validate, shown, token: token, fields: named) == 200)
    #expect(try await say(.post, validate, shown, token: stranger) == 409)
    #expect(try await say(.post, validate, shown, token: forged) == 401)
    #expect(try await say(.post, validate, shown, token: moved) == 401)
    #expect(try await say(.post, validate, #"{"signedTransaction": "\#(broken)"}"#) == 422)
    #expect(try await say(.post, validate, #"{"receipt": "\#(jws)"}"#) == 400)
    #expect(try await say(.post, validate + "?token=\(token)", #"{"\#(jws)": 1}"#) == 400)
    let asked = #"{"transactionID": "\#(bought.transactionID)", "bundleID": "\#(Self.bundleID)"}"#
    #expect(try await say(.post, validate, asked) == 200)
    let unknown = #"{"transactionID": "4711", "bundleID": "\#(Self.bundleID)"}"#
    #expect(try await say(.post, validate, unknown) == 404)
    let profile = api + "/profiles/\(user.uuidString.lowercased())/premium"
    #expect(try await say(.put, profile, #"{"signedTransactions": ["\#(jws)"]}"#, token: token) == 200)
    #expect(try await say(.put, profile, #"{"signedTransactions": ["\#(broken)"]}"#, token: token) == 422)
    #expect(try await say(.put, profile, "{}", token: stranger) == 403)
    #expect(try await say(.get, api + "/nowhere/\(jws.prefix(900))", "", token: token) == 404)
    let support = "http://127.0.0.1:\(receiptd.adminPort)/support/v1/"
    #expect(try await say(.get, support + "customer/\(user)", "", token: Self.supportToken) == 200)
    #expect(try await say(.get, support + "customer/\(user)", "", token: token) == 401)
    // The form of a person's token.
    let lost = "receiptd_" + Self.deviceSecret
    tale.tokens.append(lost)
    #expect(try await say(.get, support + "customer/\(user)", "", token: lost) == 401)
    let grant = """
      {"customer": "\(user)", "bundleID": "\(Self.bundleID)", "tier": "premium", "days": 1, "by": "ada",
        "reason": "\(token)"}
      """
    #expect(try await say(.post, support + "grant", grant, token: Self.supportToken) == 201)
    // The details of these refusals name a customer, or quote an id that support typed.
    let export = support + "export-customer/\(bought.originalTransactionID)"
    #expect(try await say(.get, export, "", token: Self.supportToken) == 400)
    #expect(try await say(.get, support + "customer/\(Self.typed)", "", token: Self.supportToken) == 404)
    let absent = """
      {"customer": "\(Self.typed)", "bundleID": "\(Self.deviceBundleID)", "tier": "family", "days": 1, "by": "ada",
        "reason": "x"}
      """
    #expect(try await say(.post, support + "grant", absent, token: Self.supportToken) == 404)
    let choice = #"{"id": "\#(Self.typed)", "prefer": "\#(Self.typed)", "reason": "x"}"#
    #expect(try await say(.post, support + "refund-answer", choice, token: Self.supportToken) == 400)

    let launch = try store.appTransaction(of: Self.deviceBundleID).signed
    tale.signed += [launch] + launch.split(separator: ".").map(String.init)
    let secret: HTTPFields = [
      try #require(HTTPField.Name("Receiptd-Device-Secret")): Self.deviceSecret
    ]
    let trial = """
      {"deviceID": "\(Self.device)", "bundleID": "\(Self.deviceBundleID)",
       "signedAppTransaction": "\(launch)"}
      """
    let (app, path) = ("?bundleID=\(Self.deviceBundleID)", api + "/devices/\(Self.device)")
    #expect(try await say(.post, api + "/trials", trial, fields: secret) == 201)
    let pairing = #"{"childDeviceID": "\#(Self.child)"}"#
    #expect(try await say(.post, path + "/children" + app, pairing, fields: secret) == 201)
    let guessed = "&device=\(Self.device)&user=\(user)&secret=\(Self.deviceSecret)"
    #expect(try await say(.get, path + "/children" + app + guessed, "", fields: secret) == 200)
    #expect(try await say(.get, path + "/entitlements" + app, "", fields: secret) == 200)
    #expect(try await say(.get, path + "/entitlements" + app, "") == 401)
    let malformed: HTTPFields = [
      try #require(HTTPField.Name("Receiptd-Device-Secret")): Self.deviceSecret + "="
    ]
    #expect(try await say(.get, path + "/entitlements" + app, "", fields: malformed) == 400)
    #expect(try await say(.delete, path + "/children/\(Self.child)" + app, "", fields: secret) == 200)
    #expect(try await say(.delete, path + "/children/\(Self.child)" + app, "", fields: secret) == 404)
    #expect(try await say(.get, path + "/nowhere?device=\(Self.device)", "") == 404)
    return tale
  }
}

extension Logger {
  fileprivate static let silent = Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() }
}
