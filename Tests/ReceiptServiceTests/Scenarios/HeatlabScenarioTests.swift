import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// Scenarios of Heatlab.
@Suite struct HeatlabScenarioTests {
  private func buys(_ productID: String, in harness: Harness) async throws -> SignedOutcome {
    let bought = try harness.buy(productID, bundleID: Heatlab.bundleID)
    try await harness.arrives(bought)
    return bought
  }

  private func hasPro(_ device: String, in harness: Harness) async throws -> Bool {
    let answer = try await harness.entitlements(device, of: Heatlab.bundleID)
    #expect(answer.status == 200)
    let isPro = answer.string("entitlements.tier") == "pro"
    #expect(answer.bool("entitlements.isAccessGranted") == isPro)
    return isPro
  }

  private func holders(_ harness: Harness) async throws -> [String] {
    try await harness.pool.query(
      "SELECT device_id FROM purchase_devices WHERE NOT is_barred ORDER BY since, device_id"
    ).map { try $0.decode("device_id") }
  }

  @Test func `Heatlab's free tier has 7 days of history without insights, and Pro has every feature`()
    async throws
  {
    try await withShippedApps { harness in
      let free = try await harness.entitlements("phone", of: Heatlab.bundleID)
      #expect(free.features == ["historyDays": "7", "allPeriods": "0", "insights": "0"])
      let pro = try await harness.device("phone", shows: buys(Heatlab.monthly, in: harness))
      #expect(pro.isNull("entitlements.features.historyDays"))
      #expect(pro.bool("entitlements.features.allPeriods") == true)
      #expect(pro.bool("entitlements.features.insights") == true)
    }
  }

  @Test func `Heatlab's monthly and annual products are one subscription`() async throws {
    try await withShippedApps { harness in
      let bought = try await buys(Heatlab.monthly, in: harness)
      _ = try await harness.device("phone", shows: bought)
      try await harness.happens(.changeProduct(Heatlab.annual), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(try await harness.row(of: bought.originalTransactionID).productID == Heatlab.annual)
      #expect(try await hasPro("phone", in: harness))
      #expect(try await harness.count("subscriptions") == 1)
    }
  }

  @Test(arguments: [["phone", "watch"], ["watch", "phone"]])
  func `phone and watch share the subscription of their Apple Account`(order: [String]) async throws {
    try await withShippedApps { harness in
      let bought = try await buys(Heatlab.monthly, in: harness)
      let id = bought.originalTransactionID
      for device in order + order {
        let shown = try await harness.device(device, shows: bought)
        #expect(shown.string("entitlements.tier") == "pro")
        harness.clock.advance(seconds: 60)
      }
      for device in order { #expect(try await hasPro(device, in: harness)) }
      #expect(try await harness.row(of: id).deviceID == order[0])
      #expect(
        try await harness.actions().map { [$0.action, $0.from ?? "", $0.to ?? ""] } == [
          ["share"] + order
        ])

      // Every change affects both devices.
      harness.clock.set(try #require(bought.transaction.expiresDate))
      for device in order { #expect(try await hasPro(device, in: harness) == false) }
      #expect(try await harness.service.sweep.run() == 1)
      try await harness.happens(.renew, to: id)
      for device in order { #expect(try await hasPro(device, in: harness)) }
      try await harness.happens(.refundLatest, to: id)
      for device in order { #expect(try await hasPro(device, in: harness) == false) }
    }
  }

  @Test func `phone, iPad and watch of one Apple Account all keep their access`() async throws {
    try await withShippedApps { harness in
      let bought = try await buys(Heatlab.annual, in: harness)
      let devices = ["phone", "ipad", "watch"]
      // Each shows the purchase at every launch, on several days.
      for _ in 0..<3 {
        for device in devices {
          let shown = try await harness.device(device, shows: bought)
          #expect(shown.string("entitlements.tier") == "pro")
          for other in try await holders(harness) { #expect(try await hasPro(other, in: harness)) }
        }
        harness.clock.advance(days: 2)
      }
      #expect(try await holders(harness).sorted() == devices.sorted())
      #expect(try await harness.actions().allSatisfy { $0.action == "share" })
      harness.clock.set(try #require(bought.transaction.expiresDate))
      for device in devices { #expect(try await hasPro(device, in: harness) == false) }
      try await harness.happens(.renew, to: bought.originalTransactionID)
      for device in devices { #expect(try await hasPro(device, in: harness)) }
    }
  }

  @Test func `Heatlab's Pro is kept offline for the paid time, and for 7 days after the last response`()
    async throws
  {
    try await withShippedApps { harness in
      let bought = try await buys(Heatlab.annual, in: harness)
      let end = try #require(bought.transaction.expiresDate)
      let shown = try await harness.device("phone", shows: bought)
      #expect(shown.date("entitlements.offlineGraceUntil") == end)
      harness.clock.set(end - 86_400)
      let late = try await harness.entitlements("phone", of: Heatlab.bundleID)
      #expect(late.date("entitlements.offlineGraceUntil") == harness.clock.now + 7 * 86_400)
      harness.clock.set(end)
      #expect(
        try await harness.entitlements("phone", of: Heatlab.bundleID).isNull("entitlements.offlineGraceUntil")
      )
    }
  }

  @Test(arguments: ["keep", "transfer", "transferWhenInactive"])
  func `whatever the transfer policy, a third device replaces the one with the oldest proof`(
    policy: String
  ) async throws {
    let change: (String) -> String = {
      Heatlab.sharing(among: 2)($0)
        .replacing(#""transferPolicy": "transfer","#, with: #""transferPolicy": "\#(policy)","#)
    }
    try await withShippedApps(change) { harness in
      let bought = try await buys(Heatlab.annual, in: harness)
      for device in ["old-phone", "watch", "new-phone"] {
        _ = try await harness.device(device, shows: bought)
        harness.clock.advance(days: 1)
      }
      #expect(try await hasPro("old-phone", in: harness) == false)
      #expect(try await hasPro("watch", in: harness))
      #expect(try await hasPro("new-phone", in: harness))
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "new-phone")
      #expect(
        try await harness.actions().map { [$0.action, $0.from ?? "", $0.to ?? ""] } == [
          ["share", "old-phone", "watch"], ["transfer", "old-phone", "new-phone"],
        ])
    }
  }

  @Test func `a device with a shared purchase sees its own records and no other device's`()
    async throws
  {
    try await withShippedApps { harness in
      let ada = try #require(Harness.ada)
      let bought = try await buys(Heatlab.monthly, in: harness)
      _ = try await harness.desk.grant(
        to: "phone", bundleID: Heatlab.bundleID, tier: "pro", days: 400, by: ada, isForced: true)
      _ = try await harness.device("phone", shows: bought)
      let watch = try await harness.device("watch", shows: bought)
      // Not until the end of the phone's grant.
      #expect(watch.date("entitlements.validUntil") == bought.transaction.expiresDate)
      #expect(try await hasPro("stranger", in: harness) == false)
    }
  }

  @Test func `support sees both devices of a shared purchase and transfers it to one`() async throws {
    try await withShippedApps { harness in
      let ada = try #require(Harness.ada)
      let bought = try await buys(Heatlab.monthly, in: harness)
      let id = bought.originalTransactionID
      for device in ["phone", "watch"] { _ = try await harness.device(device, shows: bought) }
      for asked in ["phone", "watch", id] {
        let report = try await harness.desk.customer(asked)
        let names = report.customers.map(\.customer)
        #expect(names == (asked == id ? ["phone", "watch"] : [asked]))
        for story in report.customers {
          #expect(story.entitlements.tier == "pro")
          #expect(story.purchases.map(\.originalTransactionID) == [id])
          #expect(story.purchases.map { $0.devices.map(\.deviceID) } == [["phone", "watch"]])
          #expect(story.events.contains { $0.event == "purchase" && $0.reference == id })
          #expect(story.events.contains { $0.event == "share" })
        }
      }
      let rows = try await harness.pool.query(
        "SELECT customer, has_access, tiers FROM support_customers ORDER BY customer")
      #expect(try rows.map { try $0.decode("customer", as: String.self) } == ["phone", "watch"])
      #expect(try rows.allSatisfy { try $0.decode("has_access", as: Bool.self) })
      let told = try await harness.pool.query(
        "SELECT count(*) FROM support_timeline WHERE original_transaction_id = \(id) AND event = 'purchase'")
      #expect(try told[0].decode("count", as: Int.self) == 1)

      _ = try await harness.desk.transfer(id, to: "new-phone", by: ada, isForced: true)
      for _ in 0..<2 {
        for device in ["phone", "watch"] {
          let refused = try await harness.validate([
            "signedTransaction": bought.signedTransaction, "deviceID": device,
          ])
          #expect(refused.code == "belongs_to_another_customer")
          #expect(try await hasPro(device, in: harness) == false)
        }
        #expect(try await hasPro("new-phone", in: harness))
      }
      let losers = try await harness.actions().filter { $0.action == "transfer" }
      #expect(Set(losers.map(\.from)) == ["phone", "watch"])
      #expect(losers.allSatisfy { $0.to == "new-phone" && $0.by == "ada" })
    }
  }

  @Test func `twenty devices that claim a purchase concurrently leave two, and every transfer is recorded`()
    async throws
  {
    try await withShippedApps(Heatlab.sharing(among: 2)) { harness in
      let bought = try await buys(Heatlab.monthly, in: harness)
      let answers = try await atOnce(20) { number in
        try await harness.validate([
          "signedTransaction": bought.signedTransaction, "deviceID": "device-\(number)",
        ])
      }
      #expect(answers.allSatisfy { $0.status == 200 })
      let having = try await holders(harness)
      #expect(having.count == 2)
      let owner = try #require(try await harness.row(of: bought.originalTransactionID).deviceID)
      #expect(having.contains(owner))
      // Replaying the records ends with the same devices.
      let actions = try await harness.actions()
      // One device finds room, and two replace another one on this day.
      #expect(actions.count == 3)
      var played: Set<String> = [try #require(actions.first?.from)]
      for action in actions {
        let (from, to) = (try #require(action.from), try #require(action.to))
        if action.action == "transfer" { #expect(played.remove(from) != nil) }
        played.insert(to)
      }
      #expect(played == Set(having))
      var pro: Set<String> = []
      for number in 1...20 where try await hasPro("device-\(number)", in: harness) {
        pro.insert("device-\(number)")
      }
      #expect(pro == played)
    }
  }

  @Test func `a purchase from before sharing is shared, and without sharing has one device again`()
    async throws
  {
    try await withShippedApps(Heatlab.sharing(among: 1)) { harness in
      let bought = try await buys(Heatlab.monthly, in: harness)
      _ = try await harness.device("phone", shows: bought)
      #expect(try await holders(harness) == [])
      let shared = try await harness.service(configuration: ScreenTime.configuration())
      let entry = LedgerEntry(
        app: shared.sweep.catalog[Heatlab.bundleID], originalTransactionID: bought.originalTransactionID,
        because: .proof(Claim(by: .device("watch"))), instant: harness.clock.now)
      let receipt = try await shared.sweep.ledger.record(entry)
      #expect(receipt.subscription?.customers == [.device("phone"), .device("watch")])
      await shared.close()
      // This server's configuration does not share: only the owner has it.
      #expect(try await hasPro("phone", in: harness))
      #expect(try await hasPro("watch", in: harness) == false)
    }
  }

  @Test func `a repeated transfer is recorded for the device that loses the purchase`() async throws {
    try await withShippedApps { harness in
      let ada = try #require(Harness.ada)
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      let id = bought.originalTransactionID
      _ = try await harness.device("old", shows: bought)
      _ = try await harness.desk.transfer(id, to: "new", by: ada, isForced: true)
      _ = try await harness.device("third", shows: bought)
      let again = try await harness.desk.transfer(id, to: "new", by: ada, isForced: true)
      let answer = try await harness.entitlements("third", of: Heatlab.bundleID)
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(again.isChanged)
      #expect(
        try await harness.actions().map { [$0.action, $0.from ?? "", $0.to ?? ""] } == [
          ["transfer", "old", "new"], ["share", "new", "third"], ["transfer", "third", "new"],
        ])
    }
  }
}
