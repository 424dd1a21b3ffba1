import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Sockets
import Subscriptions
import Testing
import Text

@testable import Actions
@testable import Customers
@testable import Numbers
@testable import ReceiptService
@testable import Support

/// StoreKit tests in Xcode against a development server (docs/xcode.md). The simulator signs as Xcode does.
@Suite struct XcodeTests {
  /// A server for development, which shares the harness's database.
  private struct Development {
    let harness: Harness
    let service: Service
    let address: SocketAddress

    func post(_ path: String, _ members: [String: String]) async throws -> Answer {
      try await harness.send(
        .post, path, json: String(decoding: JSONEncoder().encode(members), as: UTF8.self), to: address)
    }

    func validate(_ device: String, _ jws: String, renewal: String? = nil) async throws -> Answer {
      var members = ["deviceID": device, "signedTransaction": jws]
      members["signedRenewalInfo"] = renewal
      return try await post("/api/v1/subscriptions/validate", members)
    }
  }

  private static func configuration(
    certificate: String?, environments: String = #"["Xcode"]"#, grants: String = "everyone",
    and more: String = ""
  ) -> String {
    let xcode = certificate.map { #""xcode": { "certificates": ["\#($0)"] }, "# } ?? ""
    return """
      { "apps": [ { "bundleID": "\(ScreenTime.bundleID)", "appAppleID": 1500000002, "customer": "device",
        "environments": \(environments), \(xcode)\(more)"sandboxGrants": "\(grants)",
        "products": { "com.screentimerewards.individual.monthly": { "tier": "individual" },
                      "com.screentimerewards.family.monthly": { "tier": "family" } },
        "tiers": { "individual": { "rank": 1, "features": { "childDevices": 1 } },
                   "family": { "rank": 2, "features": { "childDevices": 5 } } },
        "trial": { "days": 30, "features": {} } } ] }
      """
  }

  private func withDevelopment(
    grants: String = "everyone", _ body: (Development) async throws -> Void
  ) async throws {
    // The store of the harness reads the same file.
    try await withHarness(configuration: Self.configuration(certificate: nil, environments: #"["Sandbox"]"#))
    {
      harness in
      let service = try await service(harness, grants: grants)
      try await harness.serving(service) { address in
        try await body(Development(harness: harness, service: service, address: address))
      }
      await service.close()
    }
  }

  private func service(
    _ harness: Harness, grants: String = "everyone", environments: String = #"["Xcode"]"#,
    and more: String = ""
  ) async throws -> Service {
    try await withCertificate(of: harness) { certificate in
      try await harness.service(
        configuration: Self.configuration(
          certificate: certificate, environments: environments, grants: grants, and: more),
        settings: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret])
    }
  }

  /// Runs `body` with the file of the simulator's certificate of Xcode.
  private func withCertificate<R>(of harness: Harness, _ body: (String) async throws -> R) async throws -> R {
    let certificate = FileManager.default.temporaryDirectory.appending(path: "receiptd-xcode-\(UUID()).cer")
    defer { try? FileManager.default.removeItem(at: certificate) }
    try Data(harness.store.identity.xcode.certificates[0]).write(to: certificate)
    return try await body(certificate.path)
  }

  private static let individual = "com.screentimerewards.individual.monthly"
  private static let family = "com.screentimerewards.family.monthly"

  @Test func `TC1 to TC6 pass with what Xcode signs`() async throws {
    try await withDevelopment { development in
      let (harness, store) = (development.harness, development.harness.store)
      // TC1: the trial.
      let app = try store.appTransaction(of: ScreenTime.bundleID, in: .xcode).signed
      let trial = try await development.post(
        "/api/v1/trials",
        ["deviceID": "phone", "bundleID": ScreenTime.bundleID, "signedAppTransaction": app])
      #expect(trial.status == 201)
      #expect(trial.string("entitlements.status") == "trial")
      // TC2: the purchase. Its id is 0, and its dates have fractions.
      let bought = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .xcode)
      #expect(bought.transaction.transactionId == "0")
      let payload = bought.signedTransaction.split(separator: ".")[1]
      let json = String(decoding: try #require(Base64.decode(String(payload), .url)), as: UTF8.self)
      #expect(json.contains(".25"), "\(json)")
      let answer = try await development.validate(
        "phone", bought.signedTransaction, renewal: bought.signedRenewalInfo)
      #expect(answer.status == 200)
      #expect(answer.string("subscription.environment") == "Xcode")
      #expect(answer.string("entitlements.tier") == "individual")
      #expect(answer.bool("subscription.autoRenewEnabled") == true)
      let id = try #require(answer.string("subscription.originalTransactionID"))
      #expect(id.count == 20 && id.hasPrefix("99"))
      // TC3: the renewal.
      harness.clock.advance(seconds: 29 * 86_400)
      let renewed = try store.perform(.renew, on: "0")
      let second = try await development.validate("phone", renewed.signedTransaction)
      #expect(second.string("subscription.originalTransactionID") == id)
      #expect(second.string("subscription.transactionID") != id)
      let (first, later) = (answer.date("subscription.expiryDate"), second.date("subscription.expiryDate"))
      #expect(try #require(later) > #require(first))
      // TC4: another device.
      #expect(
        try await development.validate("tablet", bought.signedTransaction).string("entitlements.tier")
          == "individual")
      // TC6: the upgrade, in the period that was renewed.
      harness.clock.advance(seconds: 3 * 86_400)
      let upgraded = try store.perform(.changeProduct(Self.family), on: "0")
      #expect(
        try await development.validate("phone", upgraded.signedTransaction).string("entitlements.tier")
          == "family")
      // TC5: the refund, then another purchase that ends.
      let refunded = try store.perform(.refund(transactionID: nil, percentage: nil, reason: nil), on: "0")
      #expect(
        try await development.validate("phone", refunded.signedTransaction).string("subscription.status")
          == "cancelled")
      let other = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .xcode)
      #expect(
        try await development.validate("phone", other.signedTransaction).string("entitlements.status")
          == "active")
      harness.clock.advance(seconds: 32 * 86_400)
      let ended = try store.perform(.expire(nil), on: other.originalTransactionID)
      let over = try await development.validate(
        "phone", ended.signedTransaction, renewal: ended.signedRenewalInfo)
      #expect(over.string("subscription.status") == "expired")
      #expect(over.string("entitlements.status") == "expired")
      #expect(over.bool("entitlements.isAccessGranted") == false)
      let rows = try await harness.pool.query("SELECT DISTINCT environment FROM transactions")
      #expect(try rows.map { try $0.decode("environment", as: String.self) } == ["Xcode"])
    }
  }

  @Test func `a new run of Xcode whose ids begin at 0 again is another purchase`() async throws {
    try await withDevelopment { development in
      let harness = development.harness
      let first = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .xcode)
      #expect(try await development.validate("phone", first.signedTransaction).status == 200)
      harness.clock.advance(seconds: 3_600)
      let app = try #require(harness.store.app(ScreenTime.bundleID))
      let again = try SimulatedAppStore(
        identity: harness.store.identity, apps: [app],
        clock: VirtualClock { [clock = harness.clock] in clock.now })
      let second = try again.buy(
        PurchaseRequest(bundleID: ScreenTime.bundleID, productID: Self.family), in: .xcode)
      #expect(second.transaction.transactionId == "0")
      let answer = try await development.validate("phone", second.signedTransaction)
      #expect(answer.string("entitlements.tier") == "family")
      #expect(try await harness.count("subscriptions") == 2)
    }
  }

  @Test func `data of Xcode gives access to testers alone`() async throws {
    try await withDevelopment(grants: "nobody") { development in
      let bought = try development.harness.buy(Self.family, bundleID: ScreenTime.bundleID, in: .xcode)
      let answer = try await development.validate("phone", bought.signedTransaction)
      #expect(answer.status == 200)
      #expect(answer.bool("entitlements.isAccessGranted") == false)
    }
  }

  @Test func `without the setting, and by another certificate, what Xcode signs is refused`() async throws {
    try await withDevelopment { development in
      let harness = development.harness
      let bought = try harness.buy(Self.family, bundleID: ScreenTime.bundleID, in: .xcode)
      // The harness's own service has no certificate.
      let plain = try await harness.validate(
        ["deviceID": "phone", "signedTransaction": bought.signedTransaction])
      #expect(plain.status == 422 && plain.code == "invalid_signature")
      let stranger = try SigningAuthority.makeXcodeSigner().sign(bought.transaction)
      let other = try await development.validate("phone", stranger)
      #expect(other.status == 422 && other.code == "invalid_signature")
      #expect(try await harness.count("subscriptions") == 0)
    }
  }

  @Test(arguments: [AppStore.Environment.production, .sandbox])
  func `a certificate of Xcode signs no data of the App Store`(_ environment: AppStore.Environment)
    async throws
  {
    try await withHarness(configuration: Self.configuration(certificate: nil, environments: #"["Sandbox"]"#))
    {
      harness in
      let service = try await service(
        harness, environments: #"["Sandbox", "Xcode"]"#)
      try await harness.serving(service) { address in
        let development = Development(harness: harness, service: service, address: address)
        let bought = try harness.buy(Self.family, bundleID: ScreenTime.bundleID, in: environment)
        let forged = try harness.store.identity.xcode.sign(bought.transaction)
        let answer = try await development.validate("phone", forged)
        #expect(answer.status == 422 && answer.code == "invalid_signature")
        // The other way round: Apple's chain does not say Xcode.
        var claimed = bought.transaction
        claimed.environment = .xcode
        let odd = try await development.validate(
          "phone", try harness.store.identity.authority.signer.sign(claimed))
        #expect(odd.status == 422 && odd.code == "wrong_environment")
        // Nor does it sign notifications.
        let notification = bought.notification.signedPayload
        let body = try #require(Base64.decode(String(notification.split(separator: ".")[1]), .url))
        let signed = try harness.store.identity.xcode.sign(json: body)
        let told = try await development.post(
          "/api/v1/subscriptions/webhook", ["signedPayload": signed])
        #expect(told.status == 401)
        #expect(try await harness.count("subscriptions") == 0)
        #expect(try await harness.count("notifications") == 0)
      }
      await service.close()
    }
  }

  @Test
  func
    `PUT premium takes what Xcode signs, and the app's webhook is told of a purchase in the sandbox alone`()
    async throws
  {
    try await withHarness { harness in
      let webhook = WebhookReceiver.webhook("https://hook.example")
      let service = try await withCertificate(of: harness) { certificate in
        let development = """
          "customer": "user", "environments": ["Sandbox", "Xcode"], "xcode": { "certificates": ["\(certificate)"] },
          "webhooks": [\(webhook)],
          """
        return try await harness.service(
          configuration: TestApps.configuration(sandboxGrants: #""everyone""#).replacing(
            #""customer": "user","#, with: development),
          settings: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret])
      }
      try await harness.serving(service) { address in
        let user = UUID()
        func sync(_ environment: AppStore.Environment) async throws -> Answer {
          let bought = try harness.buy(TestApps.monthly, token: user, in: environment)
          return try await harness.send(
            .put, "/api/v1/profiles/\(user.uuidString.lowercased())/premium",
            json: #"{"signedTransactions": ["\#(bought.signedTransaction)"]}"#,
            token: harness.token(for: user), to: address)
        }
        let answer = try await sync(.xcode)
        #expect(answer.status == 200)
        #expect(answer.bool("isPremium") == true)
        #expect(
          try await harness.count("subscriptions WHERE environment = 'Xcode' AND user_id = '\(user)'") == 1)
        #expect(try await harness.count("outbox") == 0)
        #expect(try await sync(.sandbox).status == 200)
        #expect(try await harness.count("outbox WHERE key = '\(user.uuidString.lowercased())'") == 1)
      }
      await service.close()
    }
  }

  @Test func `a day of purchases in Xcode changes no KPI`() async throws {
    try await withDevelopment { development in
      let harness = development.harness
      try harness.becomes("03-01")
      let app = try harness.store.appTransaction(of: ScreenTime.bundleID, in: .xcode).signed
      let trial = ["deviceID": "phone", "bundleID": ScreenTime.bundleID, "signedAppTransaction": app]
      #expect(try await development.post("/api/v1/trials", trial).status == 201)
      let bought = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .xcode)
      #expect(try await development.validate("phone", bought.signedTransaction).status == 200)
      for command in [SubscriptionCommand.changeProduct(Self.family), .refundLatest] {
        harness.clock.advance(seconds: 60)
        let next = try harness.store.perform(command, on: bought.originalTransactionID)
        #expect(try await development.validate("phone", next.signedTransaction).status == 200)
      }
      harness.clock.advance(seconds: 60)
      let (counter, day) = (development.service.numbers.counter, try harness.day("03-01"))
      #expect(try await counter.count(day) == 0)
      #expect(try await harness.everythingCounted() == [])
      // The same rows of production are counted.
      for table in ["transactions", "subscriptions"] {
        _ = try await harness.pool.query("UPDATE \(unescaped: table) SET environment = 'Production'")
      }
      _ = try await counter.count(day)
      #expect(try await harness.everythingCounted() != [])
    }
  }

  @Test func `no webhook and no CloudKit container is told of a customer of Xcode alone`() async throws {
    try await withHarness(
      configuration: Self.configuration(certificate: nil, environments: #"["Sandbox"]"#), role: nil
    ) { harness in
      let service = try await service(
        harness, environments: #"["Sandbox", "Xcode"]"#,
        and: #""writeTo": ["cloudkit"], "webhooks": [\#(WebhookReceiver.webhook("https://hook.example"))], "#)
      try await harness.serving(service) { address in
        let development = Development(harness: harness, service: service, address: address)
        let app = try #require(service.catalog[ScreenTime.bundleID])
        func told() async throws -> [String] {
          try await harness.pool.query("SELECT key FROM outbox ORDER BY key, destination").map {
            try $0.decode("key", as: String.self)
          }
        }
        // A trial, a purchase that a second device shares, and a child's device.
        let signed = try harness.store.appTransaction(of: ScreenTime.bundleID, in: .xcode).signed
        let trial = ["deviceID": "phone", "bundleID": ScreenTime.bundleID, "signedAppTransaction": signed]
        #expect(try await development.post("/api/v1/trials", trial).status == 201)
        let bought = try harness.buy(Self.family, bundleID: ScreenTime.bundleID, in: .xcode)
        for device in ["phone", "tablet"] {
          #expect(try await development.validate(device, bought.signedTransaction).status == 200)
        }
        let children = "/api/v1/devices/phone/children?bundleID=\(ScreenTime.bundleID)"
        #expect(try await development.post(children, ["childDeviceID": "child"]).status == 201)
        try await CustomerChanges.enqueueEveryone(of: app, at: harness.clock.now, in: harness.pool)
        #expect(try await told() == [])
        // A purchase of the sandbox on one of the devices.
        let real = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .sandbox)
        #expect(try await development.validate("tablet", real.signedTransaction).status == 200)
        #expect(try await told() == ["tablet", "tablet"])
        // A child's device of a parent without data of Xcode.
        let other = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .sandbox)
        #expect(try await development.validate("parent", other.signedTransaction).status == 200)
        let others = "/api/v1/devices/parent/children?bundleID=\(ScreenTime.bundleID)"
        #expect(try await development.post(others, ["childDeviceID": "second"]).status == 201)
        #expect(try await told() == ["parent", "parent", "second", "second", "tablet", "tablet"])
        // The end of the test data is told to those that knew of it.
        _ = try await harness.pool.query("UPDATE outbox SET done_at = now()")
        _ = try await ForgetXcodeRequest().perform(at: service.support, by: #require(Harness.ada))
        #expect(try await told() == ["parent", "parent", "second", "second", "tablet", "tablet"])
        #expect(try await harness.count("outbox WHERE key = 'tablet' AND done_at IS NULL") == 2)
      }
      await service.close()
    }
  }

  @Test func `forget-xcode needs the rights of the owner`() async throws {
    try await withHarness(
      configuration: Self.configuration(certificate: nil, environments: #"["Sandbox"]"#), role: "receiptd_app"
    ) { harness in
      let service = try await service(harness)
      try await harness.serving(service) { address in
        let development = Development(harness: harness, service: service, address: address)
        let bought = try harness.buy(Self.family, bundleID: ScreenTime.bundleID, in: .xcode)
        #expect(try await development.validate("phone", bought.signedTransaction).status == 200)
        let ada = try #require(Harness.ada)
        let refused = try await refusal {
          _ = try await ForgetXcodeRequest().perform(at: service.support, by: ada)
        }
        #expect(refused == .forbidden)
        #expect(try await harness.count("subscriptions") == 1)
      }
      await service.close()
    }
  }

  @Test func `forget-xcode deletes what Xcode left and nothing else`() async throws {
    try await withHarness(
      configuration: Self.configuration(certificate: nil, environments: #"["Sandbox"]"#), role: nil
    ) { harness in
      let service = try await service(harness)
      try await harness.serving(service) { address in
        let development = Development(harness: harness, service: service, address: address)
        let real = try harness.buy(Self.individual, bundleID: ScreenTime.bundleID, in: .sandbox)
        _ = try await harness.validate(["deviceID": "tablet", "signedTransaction": real.signedTransaction])
        let app = try harness.store.appTransaction(of: ScreenTime.bundleID, in: .xcode).signed
        _ = try await development.post(
          "/api/v1/trials",
          ["deviceID": "phone", "bundleID": ScreenTime.bundleID, "signedAppTransaction": app])
        let bought = try harness.buy(Self.family, bundleID: ScreenTime.bundleID, in: .xcode)
        #expect(try await development.validate("phone", bought.signedTransaction).status == 200)
        let ada = try #require(Harness.ada)
        let preview = try await ForgetXcodeRequest().perform(at: service.support, by: ada, isDryRun: true)
        #expect(preview.purchases == 1 && preview.trials == 1)
        #expect(try await harness.count("subscriptions") == 2)
        let forgotten = try await ForgetXcodeRequest().perform(at: service.support, by: ada)
        #expect(forgotten.purchases == 1 && forgotten.trials == 1)
        #expect(try await harness.count("subscriptions") == 1)
        #expect(try await harness.count("transactions WHERE environment = 'Xcode'") == 0)
        #expect(try await harness.count("transactions") == 1)
        #expect(try await harness.count("trials") == 0)
        // The next run has a trial of its own.
        let again = try await development.post(
          "/api/v1/trials",
          ["deviceID": "phone", "bundleID": ScreenTime.bundleID, "signedAppTransaction": app])
        #expect(again.status == 201)
      }
      await service.close()
    }
  }

  @Test func `a server with real purchases does not start with Xcode, and doctor says so`() async throws {
    try await withHarness(
      configuration: Self.configuration(certificate: nil, environments: #"["Production"]"#)
    ) {
      harness in
      let development = try await service(harness, environments: #"["Sandbox", "Xcode"]"#)
      try await development.checkXcode()
      let bought = try harness.buy(Self.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.validate(["deviceID": "phone", "signedTransaction": bought.signedTransaction])
      await #expect(throws: ConfigurationProblem.self) { try await development.checkXcode() }
      let doctor = Doctor(environment: harness.environment)
      let line = try await doctor.xcode(harness.pool, development.catalog)
      #expect(line?.isOK == false)
      #expect(line?.message.contains("purchases of production") == true)
      await development.close()
    }
  }

  @Test(arguments: [
    (#"["Xcode"]"#, nil, "environments"), (#"["Sandbox"]"#, "/tmp/none.cer", "xcode"),
    (#"["Xcode"]"#, "/tmp/none.cer", "cannot read"),
    (#"["Production", "Xcode"]"#, "/tmp/none.cer", "beside Production"),
  ])
  func `a configuration that does not fit names the key`(
    _ environments: String, _ certificate: String?, _ word: String
  ) async throws {
    try await withHarness { harness in
      let problem = await #expect(throws: ConfigurationProblem.self) {
        _ = try await harness.service(
          configuration: Self.configuration(certificate: certificate, environments: environments))
      }
      #expect(problem.map { "\($0)".contains(word) } == true)
    }
  }
}
