import AppStore
import AppStoreSimulator
import Foundation
import JSON
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// One signed transaction fits any invented device id; a purchase moves a limited number of times within 24 hours.
@Suite struct MoveLimitTests {
  /// The shipped configuration with this many devices for a purchase of ScreenTime Rewards.
  static func configuration(devices: Int) throws -> String {
    let shipped = #""devicesPerPurchase": 10,"#
    let configuration = try ScreenTime.configuration()
    #expect(configuration.contains(shipped))
    return configuration.replacing(shipped, with: #""devicesPerPurchase": \#(devices),"#)
  }

  @Test func `a purchase that 60 invented devices prove leaves the rows of two sets of devices a day`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 3)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for day in 0..<2 {
        var answers: [Answer] = []
        for number in 0..<60 {
          answers.append(try await harness.device("day-\(day)-\(number)", shows: bought))
        }
        // Each proof is answered with the purchase; only a device that has it gets what it opens.
        let bound = day == 0 ? 6 : 3
        for (number, answer) in answers.enumerated() {
          #expect(answer.status == 200)
          #expect(answer.string("subscription.tier") == "family")
          #expect(answer.string("entitlements.tier") == (number < bound ? "family" : nil))
          #expect(answer.code == (number < bound ? nil : "device_limit_reached"))
          #expect(answer.hasToken)
        }
        #expect(try await harness.entitlements("day-\(day)-59").string("entitlements.tier") == nil)
        harness.clock.advance(days: 1)
      }
      // The first device, two that found room, and three replacements on each day.
      #expect(try await harness.count("support_actions") == 8)
      #expect(try await harness.count("purchase_devices") == 3)
      #expect(try await harness.pool.query("SELECT DISTINCT key FROM outbox").count <= 9)
      #expect(try await harness.actions().allSatisfy { $0.by == "policy" })
    }
  }

  @Test func `a family that launches each day keeps its purchase against devices that join each day`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 4)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let family = (1...4).map { "family-\($0)" }
      for device in family {
        harness.clock.advance(seconds: 1)
        _ = try await harness.device(device, shows: bought)
      }
      for day in 0..<5 {
        for number in 0..<6 {
          harness.clock.advance(seconds: 1)
          let joined = try await harness.device("day-\(day)-\(number)", shows: bought)
          #expect(joined.code == (number < 4 ? nil : "device_limit_reached"))
        }
        for device in family {
          harness.clock.advance(seconds: 1)
          let answer = try await harness.device(device, shows: bought)
          #expect(answer.code == nil, "\(device) on day \(day)")
        }
        for device in family {
          #expect(try await harness.entitlements(device).string("entitlements.tier") == "family")
        }
        harness.clock.advance(days: 1)
      }
      #expect(try await harness.count("purchase_devices") == 4)
      #expect(try await harness.count("purchase_devices WHERE displaced_device_id IS NOT NULL") == 0)
      // Three devices joined the first one. On each day four moves were counted, and three places went back.
      #expect(try await harness.count("support_actions") == 3 + 5 * 7)
    }
  }

  @Test func `a reinstalled device keeps its place against devices that join each day`() async throws {
    try await withHarness(configuration: Self.configuration(devices: 4)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for number in 1...4 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.device("family-\(number)", shows: bought)
      }
      harness.clock.advance(days: 1)
      let family = (2...4).map { "family-\($0)" } + ["reinstalled"]
      for device in family {
        harness.clock.advance(seconds: 1)
        #expect(try await harness.device(device, shows: bought).code == nil)
      }
      for day in 0..<5 {
        harness.clock.advance(days: 1)
        for number in 0..<6 {
          harness.clock.advance(seconds: 1)
          _ = try await harness.device("day-\(day)-\(number)", shows: bought)
        }
        for device in family.reversed() {
          harness.clock.advance(seconds: 1)
          #expect(try await harness.device(device, shows: bought).code == nil, "\(device) on day \(day)")
        }
        for device in family {
          #expect(try await harness.entitlements(device).string("entitlements.tier") == "family")
        }
      }
      #expect(try await harness.count("purchase_devices") == 4)
      #expect(try await harness.count("purchase_devices WHERE displaced_device_id = 'family-1'") == 1)
      #expect(try await harness.count("purchase_devices WHERE next_displaced_device_id IS NOT NULL") == 0)
    }
  }

  @Test func `the export names no device that lost the place, and erasing one leaves the place to the other`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 5)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for device in (1...5).map({ "phone-\($0)" }) + (1...4).map({ "new-\($0)" }) {
        harness.clock.advance(seconds: 1)
        _ = try await harness.device(device, shows: bought)
        _ = try await harness.launch(device, account: "anna")
      }
      let export = try await harness.desk.exportCustomer("new-4")
      for table in ["purchase_devices", "trials"] {
        let both = "\(table) WHERE displaced_device_id = 'phone-3' AND next_displaced_device_id = 'new-3'"
        #expect(try await harness.count(both) == 1, "\(table)")
        let rows = try #require(export.tables.first { $0.table == table }?.rows)
        #expect(rows.count == 1)
        for case .object(let columns) in rows {
          #expect(columns["displaced_device_id"] == .string("another customer"))
          #expect(columns["next_displaced_device_id"] == .string("another customer"))
        }
      }
      _ = try await harness.pool.query(
        """
        INSERT INTO events (bundle_id, customer_id, id, name, at, received_at)
        VALUES (\(ScreenTime.bundleID), 'phone-3', gen_random_uuid(), 'a', now(), now())
        """)
      _ = try await harness.erase("phone-3")
      for table in ["purchase_devices", "trials"] {
        let left = """
          \(table) WHERE displaced_device_id = 'new-3' AND displaced_at IS NOT NULL
            AND next_displaced_device_id IS NULL AND next_displaced_at IS NULL
          """
        #expect(try await harness.count(left) == 1, "\(table)")
      }
    }
  }

  @Test func `the id of an erased device goes from the place that it lost`() async throws {
    try await withHarness(configuration: Self.configuration(devices: 2)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for device in ["phone", "tablet", "new"] {
        harness.clock.advance(seconds: 1)
        _ = try await harness.device(device, shows: bought)
        _ = try await harness.launch(device, account: "anna")
      }
      for table in ["purchase_devices", "trials"] {
        #expect(try await harness.count("\(table) WHERE displaced_device_id = 'phone'") == 1)
      }
      _ = try await harness.erase("phone")
      for table in ["purchase_devices", "trials"] {
        let left = "\(table) WHERE displaced_device_id IS NOT NULL OR displaced_at IS NOT NULL"
        #expect(try await harness.count(left) == 0)
      }
      #expect(try await harness.entitlements("new").string("entitlements.tier") == "family")
    }
  }

  @Test func `concurrent claims of invented devices have one limit`() async throws {
    try await withHarness(configuration: Self.configuration(devices: 2)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let answers = try await atOnce(40) { try await harness.device("invented-\($0)", shows: bought) }
      #expect(answers.allSatisfy { $0.status == 200 })
      #expect(try await harness.count("support_actions") == 3)
      #expect(try await harness.count("purchase_devices") == 2)
    }
  }

  @Test func `a device without a place in the purchase that it proves reads the same in every response`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 1)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for device in ["phone", "reinstalled"] { _ = try await harness.device(device, shows: bought) }
      _ = try await harness.launch("tester")
      for (device, status) in [("phone", "expired"), ("tester", "trial")] {
        let proved = try await harness.device(device, shows: bought)
        #expect(proved.string("subscription.status") == "active")
        #expect(proved.code == "device_limit_reached")
        #expect(proved.hasToken)
        let read = try await harness.entitlements(device)
        for answer in [proved, read] {
          #expect(answer.string("entitlements.status") == status)
          #expect(answer.string("entitlements.tier") == nil)
          #expect(try answer.tokenSegment(1)["status"] as? String == status)
        }
        #expect(proved.features == read.features)
        #expect(proved.date("entitlements.validUntil") == read.date("entitlements.validUntil"))
      }
      // A device with a place has no code.
      let has = try await harness.device("reinstalled", shows: bought)
      #expect(has.code == nil && has.string("entitlements.tier") == "family")
    }
  }

  @Test func `with one device for each purchase two devices take it from each other once a day`() async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 1)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for day in 1...3 {
        for _ in 0..<10 {
          for device in ["phone", "reinstalled"] {
            let answer = try await harness.device(device, shows: bought)
            let tier = try await harness.entitlements(device).string("entitlements.tier")
            #expect(answer.string("entitlements.tier") == tier)
            #expect(answer.code == (tier == nil ? "device_limit_reached" : nil))
          }
        }
        #expect(try await harness.count("support_actions") == day)
        harness.clock.advance(days: 1)
      }
      // Support is not limited.
      let author = try #require(Harness.ada)
      for device in ["phone", "tablet", "phone"] {
        _ = try await harness.desk.transfer(
          bought.originalTransactionID, to: device, by: author, isForced: true)
      }
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone")
    }
  }

  @Test func `two users who take a purchase from each other are refused after ten times a day`() async throws
  {
    try await withHarness(configuration: TestApps.configuration(transferPolicy: "transfer")) { harness in
      let bought = try harness.buy()
      let users = [UUID(), UUID()]
      var statuses: [Int] = []
      for turn in 0..<30 {
        let user = users[turn % 2]
        let token = try await harness.token(for: user)
        let answer =
          turn % 3 == 0
          ? try await harness.sync([bought.signedTransaction], user: user, token: token)
          : try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
        statuses.append(answer.status)
        if answer.status == 409 { #expect(answer.code == "belongs_to_another_customer") }
        if answer.status == 409 { #expect(answer["subscription"] == nil) }
      }
      #expect(statuses.prefix(11).allSatisfy { $0 == 200 })
      // The owner is served, and the other user is refused.
      for (turn, status) in statuses.enumerated().dropFirst(11) {
        #expect(status == (turn % 2 == 0 ? 200 : 409), "\(turn)")
      }
      #expect(try await harness.count("support_actions") == 10)
      harness.clock.advance(days: 1)
      let token = try await harness.token(for: users[1])
      #expect(try await harness.sync([bought.signedTransaction], user: users[1], token: token).status == 200)
      #expect(try await harness.isPremium(users[1]) == true)
    }
  }

  @Test func `while old builds may write, a bare id replaces no device with a proof as the only one`()
    async throws
  {
    try await withHarness(configuration: Self.configuration(devices: 1)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      #expect(try await harness.device("phone", shows: bought).status == 200)
      let bare = ["transactionID": bought.transactionID, "deviceID": "stranger"]
      let answer = try await harness.validate(bare)
      #expect(answer.status == 409)
      #expect(answer.code == "belongs_to_another_customer")
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone")
    }
  }

  @Test func `while old builds may write, bare ids do not use up the moves of a device with a proof`()
    async throws
  {
    let configuration = try Self.configuration(devices: 2)
    try await withHarness(configuration: configuration) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for number in 0..<20 {
        let bare = ["transactionID": bought.transactionID, "deviceID": "stranger-\(number)"]
        #expect(try await harness.validate(bare).status == 200)
      }
      #expect(try await harness.count("support_actions") == 3)
      for device in ["phone", "tablet"] {
        _ = try await harness.device(device, shows: bought)
        #expect(try await harness.entitlements(device).string("entitlements.tier") == "family")
      }
    }
  }

  @Test(arguments: [1, 3])
  func `while old builds may write, bare ids of strangers leave a new device of the customer its move`(
    devices: Int
  ) async throws {
    try await withHarness(configuration: Self.configuration(devices: devices)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for number in 0..<max(1, devices - 1) {
        _ = try await harness.device("own-\(number)", shows: bought)
      }
      for number in 0..<20 {
        let bare = ["transactionID": bought.transactionID, "deviceID": "stranger-\(number)"]
        // The only device has a proof, and gives way to none without.
        #expect(try await harness.validate(bare).status == (devices == 1 ? 409 : 200))
      }
      // Of three devices the first new one takes the stranger's place, the second one that of a device with a proof.
      for number in 1...(devices == 1 ? 1 : 2) {
        #expect(try await harness.device("new-\(number)", shows: bought).code == nil)
        #expect(try await harness.entitlements("new-\(number)").string("entitlements.tier") == "family")
      }
    }
  }
}
