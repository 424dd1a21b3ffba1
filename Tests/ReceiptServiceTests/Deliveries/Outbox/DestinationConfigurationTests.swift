import Configuration
import Curl
import Foundation
import Logging
import Subscriptions
import Testing
import Work

@testable import Customers
@testable import Deliveries
@testable import ReceiptService

@Suite struct DestinationConfigurationTests {
  private func catalog(_ members: String) throws -> AppCatalog {
    let json = TestApps.json.replacing(
      #""customer": "device","#, with: #""customer": "device", "# + members + ",")
    return try AppCatalog(json: Data(json.utf8), named: "apps.json")
  }

  private func senders(_ members: String, _ environment: [String: String] = [:]) throws -> Set<
    OutboxDestination
  > {
    let catalog = try catalog(members)
    return Set(
      try catalog.outboxSenders(
        environment: environment, clients: OutboxClients(catalog), clock: .system,
        logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }
      ).keys)
  }

  private func mistake(_ members: String, _ environment: [String: String] = [:]) -> ConfigurationProblem? {
    do {
      _ = try senders(members, environment)
      return nil
    } catch {
      return error as? ConfigurationProblem
    }
  }

  @Test func `the configuration of a CloudKit container is read with its defaults`() throws {
    let app = try catalog(
      #""cloudkit": { "container": "iCloud.com.example", "keyID": "k", "key": "key.pem" }"#)[TestApps.family]
    let container = try #require(app?.cloudKit)
    #expect(
      container
        == CloudKitContainer(
          name: "iCloud.com.example", environment: .production, keyID: "k", keyFile: "key.pem",
          recordType: "SubscriptionStatus"))
  }

  @Test(arguments: [
    (#"{ "keyID": "k", "key": "f" }"#, "cloudkit.container", "is missing"),
    (#"{ "container": "iCloud.a", "key": "f" }"#, "cloudkit.keyID", "is missing"),
    (#"{ "container": "com.example", "keyID": "k", "key": "f" }"#, "cloudkit.container", "must be iCloud."),
    (#"{ "container": "iCloud.a/../b", "keyID": "k", "key": "f" }"#, "cloudkit.container", "must be iCloud."),
    (
      #"{ "container": "iCloud.a", "environment": "staging", "keyID": "k", "key": "f" }"#,
      "cloudkit.environment", "not one of"
    ),
    (
      #"{ "container": "iCloud.a", "keyID": "k", "key": "f", "url": "a" }"#, "cloudkit.url", "must be an http"
    ),
    (#"{ "container": "iCloud.a", "keyID": "k", "keyFile": "f" }"#, "cloudkit.keyFile", "unknown key"),
  ])
  func `a mistake in the configuration of a CloudKit container is reported`(
    object: String, subject: String, reason: String
  ) throws {
    let problem = try #require(mistake(#""cloudkit": "# + object))
    #expect(problem.subject.hasSuffix(subject))
    #expect(problem.reason.contains(reason))
  }

  @Test func `an invalid CloudKit key stops the start`() throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "no-key-\(UUID()).pem")
    try Data("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    for (path, reason) in [(file.path, "is not a P-256 private key"), ("/nowhere/key.pem", "cannot read")] {
      let problem = try #require(
        mistake(
          #""writeTo": ["cloudkit"], "cloudkit": { "container": "iCloud.a", "keyID": "k", "key": "\#(path)" }"#
        ))
      #expect(problem.subject == "cloudkit of \(TestApps.family)")
      #expect(problem.reason.contains(reason))
    }
  }

  @Test(arguments: [
    (#"{ "url": "http://example.com/hook", "secretEnv": "S" }"#, "webhooks[0].url", "must be https"),
    (
      #"{ "url": "ftp://example.com/hook", "secretEnv": "S" }"#, "webhooks[0].url", "must be an https address"
    ),
    (#"{ "url": "example.com", "secretEnv": "S" }"#, "webhooks[0].url", "must be an https address"),
    (
      #"{ "url": "https://me:pw@example.com/", "secretEnv": "S" }"#, "webhooks[0].url", "must not have a user"
    ),
    (#"{ "url": "https://example.com/" }"#, "webhooks[0].secretEnv", "is missing"),
    (
      #"{ "url": "https://example.com/", "secretEnv": "S", "allowPrivateAddresses": "yes" }"#,
      "webhooks[0].allowPrivateAddresses", "must be true or false"
    ),
    (
      #"{ "url": "https://e.com/a?x", "secretEnv": "S" }, { "url": "https://e.com/a?y", "secretEnv": "S" }"#,
      "webhooks[1].url", "appears twice"
    ),
    (#"{ "url": "https://example.com/", "secretEnv": "S" }"#, "S", "is not set"),
  ])
  func `a mistake in the configuration of a webhook is reported`(
    objects: String, subject: String, reason: String
  ) throws {
    let problem = try #require(mistake(#""webhooks": [\#(objects)]"#))
    #expect(problem.subject.hasSuffix(subject))
    #expect(problem.reason.contains(reason))
  }

  @Test
  func `each configured container and webhook is a destination, and a container without a key has no sender`()
    throws
  {
    let members = #"""
      "writeTo": ["cloudkit"], "webhooks": [
        { "url": "https://a.example/x?token=1", "secretEnv": "S" }, { "url": "https://b.example/", "secretEnv": "S" }]
      """#
    let app = try #require(try catalog(members)[TestApps.family])
    #expect(app.outboxDestinations.count == 5)
    let destinations = try senders(members, ["S": WebhookReceiver.secret])
    #expect(
      destinations.map { "\($0.kind) \($0.endpoint)" }.sorted() == [
        "event https://a.example/x", "event https://b.example/", "webhook https://a.example/x",
        "webhook https://b.example/",
      ])
  }
}
