import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// As many devices as share a purchase share the trial of an Apple Account.
@Suite struct SharedTrialTests {
  private static func configuration(devices: Int) throws -> String {
    try ScreenTime.configuration().replacing(
      #""devicesPerPurchase": 10,"#, with: #""devicesPerPurchase": \#(devices),"#)
  }

  private static func status(_ device: String, _ harness: Harness) async throws -> String? {
    try await harness.entitlements(device).string("entitlements.status")
  }

  @Test
  func `a person who reinstalls every day keeps the trial, and the device that joined longest ago leaves`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 2)) { harness in
      let end = harness.clock.now + 30 * ScreenTime.day
      #expect(try await harness.launch("phone-0", account: "anna").status == 201)
      for number in 1...9 {
        harness.clock.advance(days: 1)
        let again = try await harness.launch("phone-\(number)", account: "anna")
        #expect(again.status == 200)
        #expect(again.date("trial.endsAt") == end)
        #expect(again.string("entitlements.status") == "trial")
        #expect(try await Self.status("phone-\(number - 1)", harness) == "trial")
        if number > 1 { #expect(try await Self.status("phone-\(number - 2)", harness) == "expired") }
        #expect(try await harness.count("trials") == 2)
      }
      // A device that left joins again.
      #expect(try await harness.launch("phone-0", account: "anna").date("trial.endsAt") == end)
      #expect(try await harness.launch("new", account: "boris").status == 201)
    }
  }

  @Test func `a device that joined a trial and shows another account gives the trial to no other account`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 5)) { harness in
      #expect(try await harness.launch("phone", account: "anna").status == 201)
      let end = try await harness.launch("tablet", account: "anna").date("trial.endsAt")
      harness.clock.advance(days: 1)
      #expect(try await harness.launch("tablet", account: "boris").date("trial.endsAt") == end)
      let accounts = try await harness.pool.query(
        "SELECT device_id FROM trials WHERE app_transaction_id IS NOT NULL")
      #expect(try accounts.map { try $0.decode("device_id", as: String.self) } == ["phone"])
      #expect(try await harness.launch("own", account: "boris").status == 201)
    }
  }

  @Test
  func `beyond the devices of a day the trial stays where it is, and the answer says when to try again`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 2)) { harness in
      for number in 1...4 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.launch("phone-\(number)", account: "anna")
      }
      harness.clock.advance(seconds: 3_600)
      for number in 5...50 {
        let refused = try await harness.launch("phone-\(number)", account: "anna")
        #expect(refused.status == 409)
        #expect(refused.code == "device_limit_reached")
        #expect(refused.headers[.retryAfter] == "82799")
        #expect(try await Self.status("phone-\(number)", harness) == "expired")
      }
      // Devices that have the trial are served.
      for number in 3...4 {
        #expect(try await harness.launch("phone-\(number)", account: "anna").status == 200)
      }
      #expect(try await harness.count("trials") == 2)
      #expect(try await harness.pool.query("SELECT DISTINCT key FROM outbox").count <= 4)
      harness.clock.advance(days: 1)
      #expect(try await harness.launch("phone-5", account: "anna").status == 200)
    }
  }

  @Test func `after three moves within 24 hours invented devices replace each other in a trial`() async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 5)) { harness in
      for number in 1...5 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.launch("family-\(number)", account: "anna")
      }
      for number in 1...20 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.launch("invented-\(number)", account: "anna")
      }
      for number in 4...5 { #expect(try await Self.status("family-\(number)", harness) == "trial") }
      #expect(try await harness.count("trials") == 5)
    }
  }

  @Test func `a family that launches each day keeps its trial against devices that join each day`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 4)) { harness in
      let family = (1...4).map { "family-\($0)" }
      for device in family {
        harness.clock.advance(seconds: 1)
        _ = try await harness.launch(device, account: "anna")
      }
      for day in 0..<5 {
        for number in 0..<6 {
          harness.clock.advance(seconds: 1)
          let joined = try await harness.launch("day-\(day)-\(number)", account: "anna")
          #expect(joined.status == (number < 4 ? 200 : 409))
        }
        for device in family {
          harness.clock.advance(seconds: 1)
          #expect(try await harness.launch(device, account: "anna").status == 200, "\(device) on day \(day)")
        }
        for device in family { #expect(try await Self.status(device, harness) == "trial") }
        harness.clock.advance(days: 1)
      }
      #expect(try await harness.count("trials") == 4)
      #expect(try await harness.count("trials WHERE displaced_device_id IS NOT NULL") == 0)
    }
  }

  @Test func `a reinstalled device keeps its place in the trial against devices that join each day`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 3)) { harness in
      for number in 1...3 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.launch("family-\(number)", account: "anna")
      }
      harness.clock.advance(days: 1)
      let family = ["family-2", "family-3", "reinstalled"]
      for device in family { #expect(try await harness.launch(device, account: "anna").status == 200) }
      for day in 0..<5 {
        harness.clock.advance(days: 1)
        for number in 0..<5 {
          harness.clock.advance(seconds: 1)
          _ = try await harness.launch("day-\(day)-\(number)", account: "anna")
        }
        for device in family {
          harness.clock.advance(seconds: 1)
          #expect(try await harness.launch(device, account: "anna").status == 200, "\(device) on day \(day)")
        }
        for device in family { #expect(try await Self.status(device, harness) == "trial") }
      }
      #expect(try await harness.count("trials") == 3)
      #expect(try await harness.count("trials WHERE next_displaced_device_id IS NOT NULL") == 0)
    }
  }

  @Test func `a device that leaves a trial and one that joins it are told to the app's destinations`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 1)) { harness in
      _ = try await harness.launch("old", account: "anna")
      let told: Query = "SELECT key FROM outbox WHERE destination = 'cloudkit' ORDER BY key"
      _ = try await harness.pool.query("DELETE FROM outbox")
      _ = try await harness.launch("new", account: "anna")
      let keys = try await harness.pool.query(told).map { try $0.decode("key", as: String.self) }
      #expect(keys == ["new", "old"])
      #expect(try await Self.status("old", harness) == "expired")
      #expect(try await Self.status("new", harness) == "trial")
      // The trial is the same row, so its account gets no second one.
      #expect(try await harness.pool.query("SELECT FROM trials WHERE continues IS NULL").count == 1)
    }
  }

  @Test func `an extension reaches the devices that share the trial now`() async throws {
    try await withHarness(configuration: Self.configuration(devices: 2)) { harness in
      let end = harness.clock.now + 30 * ScreenTime.day
      for number in 1...3 {
        _ = try await harness.launch("phone-\(number)", account: "anna")
        harness.clock.advance(seconds: 1)
      }
      let author = try #require(Harness.ada)
      _ = try await harness.desk.extendTrial(
        of: "phone-3", bundleID: ScreenTime.bundleID, days: 3, by: author)
      for number in 2...3 {
        let again = try await harness.launch("phone-\(number)", account: "anna")
        #expect(again.date("trial.endsAt") == end + 3 * ScreenTime.day)
      }
    }
  }

  @Test func `an erased device takes no place in a trial, and its row is not given to another device`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 1)) { harness in
      _ = try await harness.launch("erased", account: "anna")
      _ = try await harness.erase("erased")
      let again = try await harness.launch("new", account: "anna")
      #expect(again.status == 200)
      #expect(again.string("entitlements.status") == "trial")
      let devices = try await harness.pool.query(
        "SELECT device_id FROM trials ORDER BY continues NULLS FIRST"
      )
      .map { try $0.decode("device_id", as: String.self) }
      #expect(devices.count == 2)
      #expect(devices.first?.hasPrefix("erased-") == true)
      #expect(devices.last == "new")
    }
  }

  @Test func `the trials of a device and an account are looked up by indexes before the table is analyzed`()
    async throws
  {
    try await withScreenTime { harness in
      let lookup = TrialRows.select(
        bundleID: ScreenTime.bundleID, deviceID: "phone", appTransactionID: "77", environment: "Production")
      let plan = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          """
          INSERT INTO trials (bundle_id, device_id, app_transaction_id, started_at, ends_at)
          SELECT \(ScreenTime.bundleID)::text, 'device-' || n, n::text, now(), now() FROM generate_series(1, 30000) AS n
          """)
        return try await connection.query("EXPLAIN \(lookup)")
          .map { try $0.decode("QUERY PLAN", as: String.self) }.joined(separator: "\n")
      }
      #expect(!plan.contains("Seq Scan"), "\(plan)")
      #expect(plan.contains("trials_bundle_id_device_id_key"), "\(plan)")
      #expect(plan.contains("trials_app_transaction_id_key"), "\(plan)")
    }
  }
}
