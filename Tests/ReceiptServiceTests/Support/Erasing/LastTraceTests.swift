import Actions
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// Customers of whom receiptd keeps less than a purchase, a grant or a trial.
@Suite struct LastTraceTests {
  @Test func `a device that lost its place in a shared trial is found, exported and erased`() async throws {
    let configuration = try ScreenTime.configuration().replacing(
      #""devicesPerPurchase": 10,"#, with: #""devicesPerPurchase": 2,"#)
    try await withHarness(configuration: configuration) { harness in
      let devices = (0..<4).map { "KIMS-PHONE-\($0)" }
      for (number, device) in devices.enumerated() {
        let answer = try await harness.launch(
          device, account: "anna", secret: ScreenTime.secret(UInt8(number + 1)))
        #expect(answer.status < 300)
        harness.clock.advance(days: 1)
      }
      for device in devices.prefix(2) {
        #expect(try await harness.count("trials WHERE device_id = '\(device)'") == 0)
        let found = try await harness.desk.find(device)
        #expect(found.search.customers == [CustomerSearch.Match(.device(device), of: ScreenTime.bundleID)])
        #expect(found.detail == "device \(device), known, without purchase")
        let export = try await harness.desk.exportCustomer(device)
        #expect(Set(export.tables.map(\.table)).isSuperset(of: ["device_secrets", "trials"]))
        let trial = try #require(export.tables.first { $0.table == "trials" })
        #expect("\(trial.rows)".contains(device))
        for other in devices where other != device { #expect(!"\(export.tables)".contains(other)) }
        try await harness.erase(device)
        #expect(try await harness.tables(with: device, except: ["outbox"]) == [])
        #expect(try await harness.count("outbox WHERE key = '\(device)' AND NOT payload ? 'erased'") == 0)
        #expect(try await refusal { try await harness.erase(device) } == .notFound)
      }
    }
  }

  @Test(arguments: [
    "device_secrets (bundle_id, device_id, secret_hash, set_at) VALUES ($app, $id, sha256('s'), now())",
    "consents (bundle_id, customer, is_given, changed_at) VALUES ($app, $id, true, now())",
    "adoptions (bundle_id, customer, source, outcome, run_id, at) VALUES ($app, $id, 'file', 'unknown', 1, now())",
    """
    trials (bundle_id, device_id, started_at, ends_at, displaced_device_id, displaced_at, next_displaced_device_id,
      next_displaced_at) VALUES ($app, 'other', now(), now(), 'third', now(), $id, now())
    """,
    """
    purchase_devices (original_transaction_id, device_id, bundle_id, since, proved_at, is_barred, displaced_device_id,
      displaced_at) VALUES ('910000000000001', 'other', $app, now(), now(), false, $id, now())
    """,
    """
    purchase_devices (original_transaction_id, device_id, bundle_id, since, proved_at, is_barred)
      VALUES ('910000000000001', $id, $app, now(), now(), true)
    """,
    "outbox (destination, bundle_id, key, payload) VALUES ('webhook', $app, $id, '{}')",
    """
    lifecycle_events (id, type, bundle_id, environment, device_id, occurred_at, data, created_at)
      VALUES (gen_random_uuid(), 'expired', $app, 'Production', $id, now(), '{}', now())
    """,
    """
    lifecycle_events (id, type, bundle_id, environment, device_id, child_device_ids, occurred_at, data, created_at)
      VALUES (gen_random_uuid(), 'child.unpaired', $app, 'Production', 'other', jsonb_build_array($id), now(), '{}', now())
    """,
    """
    lifecycle_events (id, type, bundle_id, environment, device_id, former_device_id, occurred_at, data, created_at)
      VALUES (gen_random_uuid(), 'transferred', $app, 'Production', 'other', $id, now(), '{}', now())
    """,
    """
    pairing_codes (bundle_id, code_hash, device_id, created_at, expires_at)
      VALUES ($app, sha256('c'), $id, now(), now())
    """,
  ])
  func `a device with one trace alone is found and erased`(trace: String) async throws {
    try await withHarness { harness in
      let id = "KIMS-PHONE"
      func insert(of app: String) async throws {
        let sql = trace.replacing("$app", with: "'\(app)'").replacing("$id", with: "'\(id)'")
        try await LiveTables.run("INSERT INTO \(sql)", on: harness.pool)
      }
      try await insert(of: TestApps.family)
      let found = try await harness.desk.find(id)
      #expect(found.search.customers == [CustomerSearch.Match(.device(id), of: TestApps.family)])
      #expect(found.search.kinds == [.device])
      try await harness.erase(id)
      #expect(try await harness.tables(with: id, except: ["outbox"]) == [])
      #expect(try await refusal { try await harness.erase(id) } == .notFound)
    }
  }

  @Test func `a customer of whom a state in the outbox is left alone is erased, and the webhooks are told`()
    async throws
  {
    try await withEvents(["customer.updated"]) { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      let child = "KIMS-IPAD"
      let children = "/api/v1/devices/phone/children"
      let query = "?bundleID=\(TestApps.family)"
      _ = try await harness.send(.post, children + query, json: #"{"childDeviceID": "\#(child)"}"#)
      #expect(try await harness.send(.delete, "\(children)/\(child)" + query).status == 200)
      let user = UUID().uuidString.lowercased()
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, bundle_id, endpoint, key, payload)
        SELECT destination, \(TestApps.climbing), endpoint, \(user), payload FROM outbox WHERE key = \(child)
        """)
      for (id, app) in [(child, TestApps.family), (user, TestApps.climbing)] {
        #expect(try await harness.tables(with: id) == ["outbox"])
        let report = try await harness.erase(id)
        #expect(report.erased.map(\.rows["outbox"]) == [1])
        #expect(report.erased.map(\.bundleIDs) == [[app]])
        #expect(try await refusal { try await harness.erase(id) } == .notFound)
      }
      try await harness.service.deliveries.outbox.run()
      let erased = receiver.events.filter { $0.type == "customer.erased" }
      #expect(Set(erased.compactMap { $0.text("customer.id") }) == [child, user])
      #expect(try await harness.count("outbox WHERE key IN ('\(child)', '\(user)')") == 0)
    }
  }

  @Test func `a user with a consent or a client's claim alone is found and erased`() async throws {
    try await withHarness { harness in
      for table in ["consents", "client_writes"] {
        let user = UUID()
        let id = user.uuidString.lowercased()
        try await LiveTables.run(
          table == "consents"
            ? "INSERT INTO consents VALUES ('\(TestApps.climbing)', '\(id)', true, now(), now(), NULL)"
            : "INSERT INTO client_writes (table_name, user_id, mode) VALUES ('profiles', '\(id)', 'accept')",
          on: harness.pool)
        let found = try await harness.desk.find(id)
        #expect(found.search.customers == [CustomerSearch.Match(.user(user), of: TestApps.climbing)])
        try await harness.erase(id)
        #expect(try await harness.tables(with: id) == [])
      }
    }
  }

  @Test func `a paired device with a secret still leads to its parent, and is erased with the secret`()
    async throws
  {
    try await withScreenTime { harness in
      let child = "KIMS-IPAD"
      _ = try await harness.device("parent", buys: ScreenTime.family)
      _ = try await harness.pair(child, to: "parent")
      _ = try await harness.pool.query(
        """
        INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at)
        VALUES (\(ScreenTime.bundleID), \(child), sha256('s'), now())
        """)
      let found = try await harness.desk.find(child)
      #expect(found.search.customers == [CustomerSearch.Match(.device("parent"), of: ScreenTime.bundleID)])
      #expect(found.search.kinds == [.childDevice])
      let report = try await harness.erase(child)
      #expect(report.erased.map(\.rows["device_secrets"]) == [1])
      #expect(try await harness.tables(with: child, except: ["outbox"]) == [])
    }
  }
}
