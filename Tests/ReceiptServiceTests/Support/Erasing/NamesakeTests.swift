import Actions
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// One id that is a customer of two apps.
@Suite struct NamesakeTests {
  private let id = "kims-telephone"
  private let apps = [ScreenTime.bundleID, Heatlab.bundleID]

  /// Gives the id rows in many tables of both apps.
  private func live(in harness: Harness) async throws {
    let ada = try #require(Harness.ada)
    for (app, product, tier) in [
      (ScreenTime.bundleID, ScreenTime.family, "family"), (Heatlab.bundleID, Heatlab.monthly, "pro"),
    ] {
      let bought = try harness.buy(product, bundleID: app)
      try await harness.arrives(bought)
      #expect(try await harness.device(id, shows: bought).string("entitlements.tier") == tier)
      _ = try await harness.desk.grant(to: id, bundleID: app, tier: tier, days: 9, by: ada)
      for statement: Query in [
        "INSERT INTO consents (bundle_id, customer, is_given, changed_at) VALUES (\(app), \(id), true, now())",
        """
        INSERT INTO events (bundle_id, customer_id, id, name, at, received_at)
        VALUES (\(app), \(id), gen_random_uuid(), 'opened', now(), now())
        """,
        "INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at) VALUES (\(app), \(id), sha256(\(id)::text::bytea), now())",
        """
        INSERT INTO refused_attempts (at, bundle_id, route, device_id, code, request_id, address_prefix)
        VALUES (now(), \(app), 'POST /x', \(id), 'forbidden', 'r', '203.0.113.0/24')
        """,
        "INSERT INTO outbox (destination, bundle_id, key, payload) VALUES ('webhook', \(app), \(id), '{}')",
        """
        INSERT INTO adoptions (bundle_id, customer, source, outcome, run_id, at)
        VALUES (\(app), \(id), 'file', 'bound', 1, now())
        """,
        """
        INSERT INTO lifecycle_events (id, type, bundle_id, environment, device_id, occurred_at, data, created_at)
        VALUES (gen_random_uuid(), 'expired', \(app), 'Production', \(id), now(), '{}', now())
        """,
      ] { _ = try await harness.pool.query(statement) }
      try await harness.device(named: id, of: app)
      _ = try await harness.pool.query(
        "INSERT INTO devices (bundle_id, device_id, child_device_id, paired_at) VALUES (\(app), \(id), 'child', now())"
      )
    }
  }

  /// All rows of an app, as text, by table.
  private func rows(of app: String, in harness: Harness) async throws -> [String: [String]] {
    let tables = try await harness.pool.query(
      """
      SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'bundle_id'
      WHERE c.relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND c.relkind IN ('r', 'p')
      """
    ).map { try $0.decode("relname", as: String.self) }
    var rows: [String: [String]] = [:]
    for table in tables {
      let own = try await harness.pool.query(
        "SELECT to_jsonb(t)::text AS row FROM \(unescaped: table) t WHERE bundle_id = \(app) ORDER BY 1"
      ).map { try $0.decode("row", as: String.self) }
      if own.contains(where: { $0.contains("\"\(id)\"") }) { rows[table] = own }
    }
    return rows
  }

  @Test func `a device id of two apps is erased and exported in the app that support names`() async throws {
    try await withShippedApps { harness in
      try await live(in: harness)
      let before = try await rows(of: Heatlab.bundleID, in: harness)
      #expect(before.count == 13, "\(before.keys.sorted())")
      let ada = try #require(Harness.ada)
      for action in [
        { _ = try await harness.desk.exportCustomer(id) },
        { _ = try await harness.desk.eraseCustomer(id, by: ada, isForced: true) },
      ] as [() async throws -> Void] {
        let error = await #expect(throws: SupportRefusal.self) { try await action() }
        #expect(error?.kind == .invalid)
        for app in apps { #expect(error?.description.contains(app) == true) }
      }
      #expect(
        try await refusal {
          _ = try await harness.desk.eraseCustomer(id, bundleID: SwiftClimb.bundleID, by: ada)
        } == .notFound)
      let export = try await harness.desk.exportCustomer(id, bundleID: ScreenTime.bundleID)
      #expect(export.bundleIDs == [ScreenTime.bundleID])
      #expect(export.tables.count >= 13, "\(export.tables.map(\.table))")
      #expect(!"\(export.tables.flatMap(\.rows))".contains("heatlab"))

      let report = try await harness.desk.eraseCustomer(
        id, bundleID: ScreenTime.bundleID, by: ada, isForced: true)
      #expect(report.erased.map(\.bundleIDs) == [[ScreenTime.bundleID]])
      #expect(try await rows(of: Heatlab.bundleID, in: harness) == before)
      #expect(try await rows(of: ScreenTime.bundleID, in: harness).keys.sorted() == ["outbox"])
      // It is a customer of one app now.
      #expect(try await harness.desk.exportCustomer(id).bundleIDs == [Heatlab.bundleID])
      try await harness.erase(id)
      #expect(try await harness.tables(with: id, except: ["outbox"]) == [])
    }
  }

  @Test func `the support API names the app`() async throws {
    try await withShippedApps { harness in
      try await live(in: harness)
      func ask(_ method: HTTPRequest.Method, _ path: String, _ json: String? = nil) async throws -> Answer {
        try await harness.send(
          method, "/support/v1/" + path, json: json, token: Harness.supportToken, to: harness.adminAddress)
      }
      let members = #""customer": "\#(id)", "reason": "asked by letter", "force": true"#
      #expect(try await ask(.get, "export-customer/\(id)").code == "invalid_request")
      #expect(try await ask(.post, "erase-customer", "{\(members)}").code == "invalid_request")
      let export = try await ask(.get, "export-customer/\(id)?bundleID=\(Heatlab.bundleID)")
      #expect(export["bundleIDs"] as? [String] == [Heatlab.bundleID])
      let done = try await ask(
        .post, "erase-customer", #"{\#(members), "bundleID": "\#(Heatlab.bundleID)"}"#)
      let erased = try #require((done["erased"] as? [[String: Any]])?.first)
      #expect(erased["bundleIDs"] as? [String] == [Heatlab.bundleID])
      #expect(erased["rowsOfOthers"] as? Int == 0)
      #expect(try await rows(of: ScreenTime.bundleID, in: harness).count == 13)
    }
  }

  @Test(arguments: [true, false])
  func `a device whose id is the UUID of a user keeps its rows, in whatever case the UUID is typed`(
    hasTrial: Bool
  ) async throws {
    try await withShippedApps { harness in
      let user = harness.user(of: SwiftClimb.bundleID)
      _ = try await user.buys(SwiftClimb.annual)
      let device = user.id.uuidString.lowercased()
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      _ = try await harness.device("other-phone", shows: bought)
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET taken_from = \(device) WHERE bundle_id = \(Heatlab.bundleID)")
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, bundle_id, key, payload)
        VALUES ('webhook', \(ScreenTime.bundleID), \(device), '{}')
        """)
      if hasTrial {
        try await harness.device(named: device, of: ScreenTime.bundleID)
        for typed in [device, device.uppercased()] {
          #expect(try await refusal { try await harness.erase(typed) } == .invalid, "\(typed)")
          #expect(
            try await refusal { _ = try await harness.desk.exportCustomer(typed) } == .invalid, "\(typed)")
        }
        // In upper case it is not the id of the device.
        let refused = try await refusal {
          try await harness.erase(device.uppercased(), of: ScreenTime.bundleID)
        }
        #expect(refused == .invalid)
      }
      let report = try await harness.erase(device.uppercased(), of: hasTrial ? SwiftClimb.bundleID : nil)
      #expect(report.erased.map(\.kind) == ["user"])
      #expect(report.erased.map(\.bundleIDs) == [[SwiftClimb.bundleID]])
      #expect(try await harness.count("trials WHERE device_id = '\(device)'") == (hasTrial ? 1 : 0))
      let deliveries = "outbox WHERE key = '\(device)' AND bundle_id = '\(ScreenTime.bundleID)'"
      #expect(try await harness.count(deliveries) == 1)
      #expect(try await harness.count("subscriptions WHERE taken_from = '\(device)'") == 1)
      #expect(try await harness.count("subscriptions WHERE user_id IS NOT NULL") == 0)
    }
  }

  @Test func `an event of a stranger in another app does not hide a paired device`() async throws {
    try await withShippedApps { harness in
      let child = "KIMS-IPAD"
      _ = try await harness.device("parent", buys: ScreenTime.family)
      _ = try await harness.pair(child, to: "parent", name: "Kim")
      _ = try await harness.pool.query(
        """
        INSERT INTO events (bundle_id, customer_id, id, name, at, received_at)
        VALUES (\(Heatlab.bundleID), \(child), gen_random_uuid(), 'opened', now(), now())
        """)
      #expect(try await refusal { try await harness.erase(child) } == .invalid)
      #expect(try await refusal { _ = try await harness.desk.exportCustomer(child) } == .invalid)
      let export = try await harness.desk.exportCustomer(child, bundleID: ScreenTime.bundleID)
      #expect(export.tables.map(\.table) == ["devices", "outbox"])
      let report = try await harness.erase(child, of: ScreenTime.bundleID)
      #expect(report.erased.map(\.pairingsOfOthers) == [1])
      #expect(try await harness.count("devices") == 0)
      #expect(try await harness.erase(child).erased.map(\.bundleIDs) == [[Heatlab.bundleID]])
      #expect(try await harness.tables(with: child, except: ["outbox"]) == [])
    }
  }

  @Test(arguments: [
    [SwiftClimb.bundleID, Thaqalayn.bundleID], [Thaqalayn.bundleID, SwiftClimb.bundleID],
  ])
  func `the last erasure of a user of two apps with one table leaves no claim and no notification`(
    order: [String]
  ) async throws {
    func change(_ configuration: String) -> String {
      configuration.replacing(#""writeTo": ["user_preferences"]"#, with: #""writeTo": ["profiles"]"#)
    }
    try await withShippedApps(change) { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      let id = user.uuidString.lowercased()
      for app in order {
        _ = try await harness.desk.grant(
          to: id, bundleID: app, tier: "premium", days: 9, by: ada, isForced: true)
      }
      let other = harness.user(of: order[1])
      let product = order[1] == SwiftClimb.bundleID ? SwiftClimb.annual : Thaqalayn.tafsir
      let known = try await other.buys(product).originalTransactionID
      _ = try await harness.pool.query(
        """
        INSERT INTO client_writes (table_name, user_id, original_transaction_id, mode, next_attempt_at)
        SELECT 'profiles', \(user)::uuid, claim, 'accept', now() FROM unnest(\(["555000111", "", known])::text[]) AS claim
        """)
      try await harness.keepWaiting(1, naming: user, of: "com.example.foreign", because: .unknownApp)
      let claims = "client_writes WHERE user_id = '\(id)'"
      try await harness.erase(id, of: order[0])
      // A purchase that is known to be of the other app stays with its customer.
      #expect(try await harness.count(claims + " AND original_transaction_id <> '\(known)'") == 0)
      #expect(try await harness.count(claims) == 1)
      #expect(try await harness.count("notifications WHERE outcome = 'unknown_app'") == 1)
      try await harness.erase(id, of: order[1])
      #expect(try await harness.tables(with: id, except: ["profiles", "user_preferences"]) == [])
    }
  }

  @Test(arguments: ["user_preferences", "profiles"])
  func `a user of two apps who is erased in one keeps the premium status of the other`(table: String)
    async throws
  {
    func change(_ configuration: String) -> String {
      configuration.replacing(#""writeTo": ["user_preferences"]"#, with: #""writeTo": ["\#(table)"]"#)
    }
    try await withShippedApps(change) { harness in
      let user = harness.user(of: SwiftClimb.bundleID)
      _ = try await user.buys(SwiftClimb.annual)
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.grant(
        to: user.id.uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 9, by: ada,
        isForced: true)
      let refused = try await refusal { try await harness.erase(user.id.uuidString) }
      #expect(refused == .invalid)
      _ = try await harness.desk.eraseCustomer(
        user.id.uuidString, bundleID: SwiftClimb.bundleID, by: ada, isForced: true)
      let profile = try await harness.profileRow(of: user.id)
      if table == "profiles" {
        #expect(profile?.product?.hasPrefix("grant:") == true)
      } else {
        #expect(profile == nil || profile == ProfileRow())
        #expect(try await harness.isPremiumInPreferences(user.id) == true)
      }
      #expect(try await harness.count("grants WHERE revoked_at IS NULL AND user_id IS NOT NULL") == 1)
      _ = try await harness.desk.eraseCustomer(
        user.id.uuidString, bundleID: Thaqalayn.bundleID, by: ada, isForced: true)
      #expect(
        try await harness.tables(with: user.id.uuidString, except: ["profiles", "user_preferences"]) == [])
    }
  }
}
