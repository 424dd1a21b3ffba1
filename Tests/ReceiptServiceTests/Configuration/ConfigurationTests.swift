import Configuration
import Foundation
import Logging
import Subscriptions
import Testing

@testable import Deliveries
@testable import ReceiptService

@Suite struct ConfigurationTests {
  private func catalog(_ json: String) throws -> AppCatalog {
    try AppCatalog(json: Data(json.utf8), named: "apps.json")
  }

  /// A valid configuration with one piece replaced.
  private func problem(replacing piece: String, with other: String) -> ConfigurationProblem? {
    let json = TestApps.json
    #expect(json.contains(piece))
    do {
      _ = try catalog(json.replacing(piece, with: other, maxReplacements: 1))
      return nil
    } catch {
      return error as? ConfigurationProblem
    }
  }

  @Test func `the shipped configuration describes its four apps`() throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../../config/apps.json").standardizedFileURL.path
    let catalog = try AppCatalog(contentsOf: file)
    #expect(catalog.apps.count == 4)
    let climbing = try #require(catalog["com.swiftclimb.app"])
    #expect(climbing.product(named: "swiftclimb.premium.annual")?.id == "com.swiftclimb.premium.annual")
    #expect(climbing.tiers["premium"]?.features["sessionHistoryDays"] == .unlimited)
    let screenTime = try #require(catalog["com.screentimerewards"])
    #expect(screenTime.trial?.days == 30)
    #expect(screenTime.grace?.features["analytics"] == .word("warning"))
    #expect(screenTime.tiers["family"]?.features["childDevices"] == .count(5))
    // Phone, iPad and watch of one account.
    #expect(catalog["com.heatlab.app"]?.devicesPerPurchase == 10)
    #expect(screenTime.devicesPerPurchase == 10)
    #expect(screenTime.offline == .grace)
    for user in ["com.swiftclimb.app", "com.heatlab.app", "com.thaqalayn.app"] {
      #expect(catalog[user]?.offline == .paidTime)
      #expect(catalog[user]?.offlineGraceDays == 7)
    }
    #expect(climbing.clientWrites == .observe)
    #expect(catalog.apps.filter(\.isDefault).map(\.bundleID) == ["com.screentimerewards"])
    // Its old builds are in use.
    #expect(screenTime.clientWrites == .accept)
  }

  @Test(arguments: [
    (
      #""transferPolicy": "keep""#, #""transferPolicie": "keep""#, "apps.json: apps[0].transferPolicie",
      "unknown key"
    ),
    (#""transferPolicy": "keep""#, #""transfer\nPolicy": "keep""#, "apps[0].transfer\nPolicy", "unknown key"),
    (
      #""transferPolicy": "keep""#, #""transferPolicy": "often""#, "apps.json: apps[0].transferPolicy",
      "not one of"
    ),
    (
      #""customer": "user""#, #""customer": "user", "devicesPerPurchase": 2"#, "apps[0].devicesPerPurchase",
      "is for apps whose customers are devices"
    ),
    (
      #""customer": "user""#, #""customer": "user", "refundAnswers": "yes""#, "apps[0].refundAnswers",
      "not one of"
    ),
    (
      #""customer": "device""#, #""customer": "device", "tellAccountToken": true"#,
      "apps[1].tellAccountToken", "is for apps whose customers are users"
    ),
    (
      #""customer": "user""#,
      #""customer": "user", "userPreferences": {"free": 999, "premium": 2}"#, "apps[0].userPreferences",
      "gives a customer without premium more bookmarks (free: 999) than one with it (premium: 2)"
    ),
    (
      #""customer": "user""#, #""customer": "user", "userPreferences": {"free": 1000}"#,
      "apps[0].userPreferences", "more bookmarks"
    ),
    (
      #""customer": "device""#, #""customer": "device", "devicesPerPurchase": 0"#,
      "apps[1].devicesPerPurchase", "must be from 1"
    ),
    (#""customer": "user""#, #""customer": 3"#, "apps.json: apps[0].customer", "must be a string"),
    (
      #""tier": "family""#, #""tier": "familly""#, "products.com.example.family.family.tier",
      "there is no tier"
    ),
    (#""rank": 1"#, #""rank": "first""#, "tiers.premium.rank", "must be a whole number"),
    (#""days": 7"#, #""days": -7"#, "grace.days", "must be from 0"),
    (#""days": 7"#, #""day": 7"#, "grace.day", "unknown key"),
    (
      #""customer": "device","#, #""customer": "device", "eventBytesPerDay": 10,"#,
      "apps[1].eventBytesPerDay", "must be from 1000"
    ),
    (
      #""customer": "device","#, #""customer": "device", "eventBytesPerDay": "1 MB","#,
      "apps[1].eventBytesPerDay", "must be a whole number"
    ),
    (
      #""customer": "device","#, #""customer": "device", "eventsBytesPerDay": 1000,"#,
      "apps[1].eventsBytesPerDay", "unknown key"
    ),
    (
      #"["climbing.monthly"]"#, #"["com.example.climbing.annual"]"#, "products.com.example.climbing.monthly",
      "twice"
    ),
    (
      #""bundleID": "com.example.family""#, #""bundleID": "com.example.climbing""#, "apps[1].bundleID",
      "twice"
    ),
    (#""insights": true"#, #""insights": [1]"#, "features.insights", "must be a boolean"),
    (#""sandboxGrants": "nobody""#, #""sandboxGrants": "some""#, "apps[0].sandboxGrants", "must be nobody"),
    (
      #""sandboxGrants": "nobody""#, #""sandboxGrants": { "everyone": true }"#, "apps[0].sandboxGrants.until",
      "is missing"
    ),
    (
      #""sandboxGrants": "nobody""#, #""sandboxGrants": { "everyone": true, "until": "soon" }"#,
      "apps[0].sandboxGrants.until", "must be a time"
    ),
    (
      #""sandboxGrants": "nobody""#,
      #""sandboxGrants": { "everyone": false, "until": "2026-12-01T00:00:00Z" }"#,
      "apps[0].sandboxGrants.everyone", "must be true"
    ),
    (
      #""sandboxGrants": "nobody""#,
      #""sandboxGrants": { "everyone": true, "till": "2026-12-01T00:00:00Z" }"#,
      "apps[0].sandboxGrants.till", "unknown key"
    ),
    (
      #""customer": "device""#, #""customer": "device", "hosts": ["https://api.example"]"#,
      "apps[1].hosts[0]", "must be a host name"
    ),
    (
      #""customer": "device""#, #""customer": "device", "hosts": ["api.example:443"]"#, "apps[1].hosts[0]",
      "without scheme and port"
    ),
    (
      #""customer": "device""#, #""customer": "device", "hosts": ["a.example", "A.example"]"#,
      "apps[1].hosts[1]", "appears twice"
    ),
    (
      #""customer": "device""#, #""customer": "device", "default": "yes""#, "apps[1].default", "true or false"
    ),
    (
      #""customer": "device""#, #""customer": "device", "clientWrites": "maybe""#, "apps[1].clientWrites",
      "is not one of accept, observe, refuse"
    ),
    (
      #""customer": "device""#, #""customer": "device", "premiumWriters": ["backend", "authenticated"]"#,
      "apps[1].premiumWriters[1]", "is a role of clients"
    ),
    (
      #""customer": "device""#, #""customer": "device", "premiumWriters": [""]"#, "apps[1].premiumWriters[0]",
      "must not be empty"
    ),
    (
      #""customer": "device""#, #""customer": "device", "freeAccessWrites": true"#,
      "apps[1].freeAccessWrites",
      "whose writeTo has profiles or user_preferences"
    ),
    (#"{ "apps": ["#, #"{ "apps": [ 5, "#, "apps[0]", "must be an object"),
  ])
  func `a mistake in apps.json is reported with its path and the reason`(
    piece: String, other: String, subject: String, reason: String
  ) throws {
    let problem = try #require(self.problem(replacing: piece, with: other))
    #expect(problem.subject.contains(subject))
    #expect(problem.reason.contains(reason))
    #expect(!problem.description.contains("\n"))
  }

  @Test func `two apps with one host, or two default apps, are a mistake`() throws {
    for (keys, subject, reason) in [
      (#""hosts": ["Api.example"],"#, "apps.json: apps[1].hosts", "'api.example' is a host of another app"),
      (#""default": true,"#, "apps.json: apps[1].default", "com.example.climbing is the default app"),
    ] {
      let json = TestApps.json.replacing(#""customer":"#, with: keys + #" "customer":"#)
      #expect {
        _ = try catalog(json)
      } throws: { error in
        let problem = error as? ConfigurationProblem
        return problem?.subject == subject && problem?.reason.contains(reason) == true
      }
    }
  }

  @Test func `an app without devicesPerPurchase shares a purchase among ten devices`() throws {
    #expect(try catalog(TestApps.json)[TestApps.family]?.devicesPerPurchase == 10)
  }

  /// An object of the configuration with an unknown key.
  @Test(arguments: [
    (#""customer": "user""#, #""customer": "user", "unheard": 1"#),
    (#""tier": "family""#, #""tier": "family", "unheard": 1"#), (#""rank": 1"#, #""rank": 1, "unheard": 1"#),
    (#""days": 7"#, #""days": 7, "unheard": 1"#), (#""secretEnv""#, #""unheard": 1, "secretEnv""#),
    (
      #""customer": "user""#,
      #""customer": "user", "grandfather": { "before": "2025-10-07T00:00:00Z", "unheard": 1 }"#
    ),
    (#""customer": "user""#, #""customer": "user", "appStore": { "unheard": 1 }"#),
    (#""customer": "user""#, #""customer": "user", "cloudkit": { "unheard": 1 }"#),
    (#""customer": "user""#, #""customer": "user", "webhooks": [{ "unheard": 1 }]"#),
    (#""sandboxGrants": "nobody""#, #""sandboxGrants": { "unheard": 1 }"#),
  ])
  func `docs/configuration.md has every key that is read`(piece: String, other: String) throws {
    let problem = try #require(self.problem(replacing: piece, with: other))
    // The reason lists the keys.
    let list = try #require(problem.reason.firstRange(of: "one of "))
    let keys = problem.reason[list.upperBound...].split(separator: ", ")
    let page = try String(
      contentsOfFile: URL(filePath: Harness.migrations).deletingLastPathComponent()
        .appending(path: "docs/configuration.md").path, encoding: .utf8)
    #expect(!keys.isEmpty)
    for key in keys {
      #expect(page.contains("`\(key)`") || page.contains("\"\(key)\""), "\(key) is not in the page")
    }
  }

  @Test(arguments: [
    ("{", "apps.json:1:2", "is not JSON: the file ends too early"),
    ("{\n  \"apps\": [\n    ],\n}", "apps.json:4:1", "is not JSON: remove the comma before this bracket"),
    ("{\"apps\": [{}, ]}", "apps.json:1:15", "is not JSON: remove the comma before this bracket"),
    ("{\n  \"äpps\" = 1}", "apps.json:2:10", "is not JSON here"),
    ("\u{FEFF}{}", "apps.json:1:1", "is not UTF-8 without a byte order mark"),
    ("{\"apps\": 1e999}", "apps.json", "has a number that is out of range"),
  ])
  func `a file that is not JSON is reported with its line and column`(
    text: String, subject: String, reason: String
  ) {
    #expect(throws: ConfigurationProblem(subject, reason)) { try catalog(text) }
  }

  @Test(arguments: [
    (#"["A", "B"]"#, ["A", "B"]), (#"["A"]"#, ["A"]), (#""A""#, ["A"]), ("[]", nil), (#"["A", "A"]"#, nil),
    (#"["A", "B", "C"]"#, nil), (#"["A", ""]"#, nil), ("1", nil),
  ])
  func `secretEnv names one variable, or two different ones`(value: String, names: [String]?) throws {
    let json = TestApps.configuration(auth: #"{ "secretEnv": \#(value) }"#)
    let read = try? catalog(json).apps.first { $0.auth != nil }?.auth?.secretEnvironmentVariables
    #expect(read == names)
  }

  @Test func `a file that cannot be read is reported with the reason`() throws {
    let folder = FileManager.default.temporaryDirectory.path
    for (path, reason) in [("/nowhere", "it does not exist"), (folder, "it is a folder")] {
      #expect(throws: ConfigurationProblem("RECEIPTD_CONFIG", "cannot read \(path): \(reason)")) {
        _ = try AppCatalog(contentsOf: path)
      }
    }
  }

  @Test func `a configuration without apps is refused`() {
    #expect(throws: ConfigurationProblem("apps.json: apps", "must not be empty")) {
      try catalog(#"{"apps": []}"#)
    }
  }

  @Test(arguments: [
    (["DATABASE_URL": ""], "DATABASE_URL"), (["DATABASE_URL": "nonsense"], "DATABASE_URL"),
    (["PORT": "http"], "PORT"), (["PORT": "70000"], "PORT"), (["LOG_LEVEL": "loud"], "LOG_LEVEL"),
    (["LOG_FORMAT": "xml"], "LOG_FORMAT"), (["APP_STORE_URL": "ftp://x"], "APP_STORE_URL"),
    (["APP_STORE_KEY_ID": "ABC"], "APP_STORE_KEY"),
    (
      ["APP_STORE_KEY": "/nowhere.p8", "APP_STORE_KEY_ID": "A", "APP_STORE_ISSUER_ID": "B"],
      "APP_STORE_KEY"
    ),
  ])
  func `an invalid environment variable is reported by its name`(changes: [String: String], name: String)
    throws
  {
    let environment = ["DATABASE_URL": "postgresql://localhost/db"].merging(changes) { _, new in new }
    #expect {
      _ = try Settings(environment: environment)
    } throws: { error in
      (error as? ConfigurationProblem)?.subject == name
    }
  }

  @Test func `the error of an invalid DATABASE_URL does not contain the password`() throws {
    #expect {
      _ = try Settings(environment: ["DATABASE_URL": "postgresql://u:s3cret@[::1/db"])
    } throws: { error in
      !"\(error)".contains("s3cret")
    }
  }

  @Test(arguments: ["", "short"])
  func `an empty JWT secret stops the start unless the app has public keys`(secret: String)
    async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let project = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
    for auth in [TestApps.secretAuth, #"{ "secretEnv": "TEST_JWT_SECRET", "jwks": "https://auth.example" }"#]
    {
      let apps = folder.appending(path: "apps.json")
      try Data(TestApps.configuration(auth: auth).utf8).write(to: apps)
      let settings = try Settings(environment: [
        "DATABASE_URL": "postgresql://localhost/db", "RECEIPTD_CONFIG": apps.path,
        "APP_STORE_ROOTS": project.appending(path: "config/AppleRootCA-G3.cer").standardizedFileURL.path,
        "TEST_JWT_SECRET": secret,
      ])
      let service = try? await Service(
        settings: settings, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
      #expect((service != nil) == (!secret.isEmpty || auth.contains("jwks")))
      await service?.close()
    }
  }

  @Test(arguments: [
    nil: 0, "sesame": 1, String(repeating: "a", count: 31): 1, String(repeating: "a", count: 32): 0,
  ])
  func `a weak support token causes a warning that does not contain it`(token: String?, warnings: Int) throws
  {
    let logs = LogLines()
    let environment = ["DATABASE_URL": "postgres://h/d", "SUPPORT_TOKEN": token]
    let settings = try Settings(environment: environment.compactMapValues(\.self))
    settings.checkSupportToken(Logger(label: "tests") { _ in logs })
    #expect(logs.all.count == warnings)
    if let token { #expect(!logs.all.contains { $0.contains(token) }) }
  }
}
