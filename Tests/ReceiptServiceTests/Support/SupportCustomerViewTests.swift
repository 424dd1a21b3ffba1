import AppStore
import AppStoreSimulator
import Customers
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// The view `support_customers` agrees with the responses to the customer's devices.
@Suite struct SupportCustomerViewTests {
  private func seen(_ device: String, _ harness: Harness) async throws -> Bool {
    let rows = try await harness.pool.query(
      "SELECT has_access FROM support_customers WHERE device_id = \(device)")
    return try rows.first?.decode("has_access") ?? false
  }

  @Test
  func
    `a tester's sandbox purchase is not shared with other devices, in the responses and the support views`()
    async throws
  {
    let tested: (String) -> String = {
      let parts = $0.split(separator: #""com.heatlab.app","#, maxSplits: 1)
      return parts[0] + #""com.heatlab.app","#
        + parts[1].replacing(#""sandboxGrants": "nobody""#, with: #""sandboxGrants": ["tester"]"#)
    }
    for order in [["tester", "stranger"], ["stranger", "tester"]] {
      try await withShippedApps(tested) { harness in
        let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID, in: .sandbox)
        for device in order { _ = try await harness.device(device, shows: bought) }
        for device in order {
          let answer = try await harness.entitlements(device, of: Heatlab.bundleID)
          #expect(answer.bool("entitlements.isAccessGranted") == (device == "tester"))
          #expect(try await seen(device, harness) == (device == "tester"), "\(device) of \(order)")
        }
      }
    }
  }

  @Test func `the grace after a trial is access in the support views`() async throws {
    try await withScreenTime { harness in
      harness.clock.advance(days: -33)
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 33)
      let answer = try await harness.entitlements("phone")
      #expect(answer.string("entitlements.status") == "grace")
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await seen("phone", harness))
    }
  }

  @Test func `a suspended trial continues in the support views`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      harness.clock.advance(days: -50)
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 10)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      harness.clock.advance(days: 30)
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      harness.clock.advance(days: 10)
      let answer = try await harness.entitlements("phone")
      #expect(answer.string("entitlements.status") == "trial")
      #expect(try await seen("phone", harness))
    }
  }

  @Test func `the rest of a trial gives no access after a refunded purchase in the support views`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let rows = try await harness.pool.query(
        "SELECT has_access, access_until FROM support_customers WHERE device_id = 'phone'")
      #expect(try rows[0].decode("has_access", as: Bool.self) == false)
      #expect(try rows[0].decode("access_until", as: Date?.self) == nil)
    }
  }

  @Test func `purchases that are no longer shared are not shown as shared in the support views`() async throws
  {
    try await withShippedApps { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      for device in ["phone", "watch"] { _ = try await harness.device(device, shows: bought) }
      #expect(try await seen("watch", harness))
      let alone = try await harness.service(
        configuration: Heatlab.sharing(among: 1)(ScreenTime.configuration()),
        settings: ["SWIFTCLIMB_JWT_SECRET": Harness.secret, "THAQALAYN_JWT_SECRET": Harness.secret])
      await alone.writeConfiguredApps()
      await alone.close()
      #expect(try await seen("phone", harness))
      #expect(try await seen("watch", harness) == false)
    }
  }

  @Test func `a lifetime purchase has no end in the support views, whatever ends beside it`() async throws {
    try await withShippedApps { harness in
      let ada = try #require(Harness.ada)
      let user = harness.user(of: Thaqalayn.bundleID)
      _ = try await user.buys(Thaqalayn.tafsir)
      _ = try await harness.desk.grant(
        to: user.id.uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 30, by: ada)
      let rows = try await harness.pool.query(
        "SELECT lifetime, access_until FROM support_customers WHERE user_id = \(user.id)")
      #expect(try rows[0].decode("lifetime", as: Bool.self))
      #expect(try rows[0].decode("access_until", as: Date?.self) == nil)
    }
  }

  @Test func `a month that is bought during free access is not lifetime access, and has its end afterwards`()
    async throws
  {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      harness.clock.advance(days: -10)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      let view: Query = "SELECT lifetime, access_until FROM support_customers WHERE device_id = 'phone'"
      #expect(try await harness.pool.query(view)[0].decode("lifetime", as: Bool.self) == false)
      harness.clock.advance(days: 10)
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      _ = try await harness.service.sweep.freeAccess.run()
      _ = try await harness.service.sweep.run()
      let rows = try await harness.pool.query(view)
      #expect(try rows[0].decode("lifetime", as: Bool.self) == false)
      let end = try #require(bought.transaction.expiresDate) + 7 * ScreenTime.day
      #expect(try rows[0].decode("access_until", as: Date?.self) == end)
    }
  }

  @Test func `a row that was computed during free access and written after it gets its end`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      harness.clock.advance(days: -35)
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      harness.clock.advance(days: 33)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      _ = try await harness.device("phone", shows: bought)
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      // Its transaction commits after the switch.
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET updated_at = updated_at + interval '5 seconds', next_change_at = NULL")
      harness.clock.advance(seconds: 20)
      _ = try await harness.service.sweep.freeAccess.run()
      _ = try await harness.service.sweep.run()
      let end = try #require(bought.transaction.expiresDate) + 7 * ScreenTime.day
      let answer = try await harness.entitlements("phone")
      #expect(answer.string("entitlements.status") == "grace")
      #expect(answer.date("entitlements.validUntil") == end)
    }
  }
}
