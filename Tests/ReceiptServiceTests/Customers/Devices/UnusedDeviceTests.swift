import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Text

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Limits on the rows of devices with nothing on record, which any client can invent.
@Suite struct UnusedDeviceTests {
  private static func secret(_ number: Int) -> String { ScreenTime.secret(UInt8(number)) }

  private static func consents(_ device: String, _ secret: String, _ harness: Harness) async throws -> Answer
  {
    try await harness.send(
      .post, "/api/v1/consent",
      json: #"{"consent": true, "bundleID": "\#(ScreenTime.bundleID)", "deviceID": "\#(device)"}"#,
      secret: secret)
  }

  private static func names(_ table: String, _ column: String, _ harness: Harness) async throws -> Set<String>
  {
    let rows = try await harness.pool.query(
      Query(unescaped: "SELECT \(column) AS name FROM \(table)"))
    return Set(try rows.map { try $0.decode("name", as: String.self) })
  }

  /// Sets the number of secrets that the day of the app has used.
  private static func charge(_ count: Int, _ harness: Harness) async throws {
    _ = try await harness.pool.query(
      """
      INSERT INTO event_bytes_daily (bundle_id, day, bytes, device_secrets)
      VALUES (\(ScreenTime.bundleID), \(Day(of: harness.clock.now).description)::text::date, 0, \(count))
      ON CONFLICT (bundle_id, day) DO UPDATE SET device_secrets = excluded.device_secrets
      """)
  }

  @Test func `another secret of a device with nothing on record makes it last no longer`() async throws {
    try await withScreenTime { harness in
      // A purchase that does not count is no record.
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID, in: .sandbox)
      _ = try await harness.children(of: "visitor", secret: Self.secret(1))
      harness.clock.advance(days: 20)
      _ = try await harness.device("visitor", shows: bought, secret: Self.secret(2))
      // The new secret is in force.
      #expect(try await harness.children(of: "visitor", secret: Self.secret(1)).status == 401)
      #expect(try await harness.children(of: "visitor", secret: Self.secret(2)).status == 200)
      harness.clock.advance(days: 11)
      // As if another device had taken the purchase.
      _ = try await harness.pool.query("DELETE FROM purchase_devices")
      _ = try await harness.pool.query("UPDATE subscriptions SET device_id = 'other'")
      for _ in 0..<2 { try await harness.service.retentionJob.run() }
      #expect(try await harness.count("device_secrets") == 0)
    }
  }

  @Test func `secrets and consents of devices with nothing on record expire, and no others`() async throws {
    try await withHarness(configuration: ScreenTime.configuration(), role: "receiptd_app") { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("buyer", shows: bought, secret: Self.secret(1))
      _ = try await harness.device("sharer", shows: bought, secret: Self.secret(2))
      _ = try await harness.launch("trial", secret: Self.secret(3))
      _ = try await harness.children(of: "child", secret: Self.secret(4))
      _ = try await harness.pair("child", to: "trial", secret: Self.secret(3))
      _ = try await harness.children(of: "granted", secret: Self.secret(5))
      let author = try #require(Harness.ada)
      _ = try await harness.desk.grant(
        to: "granted", bundleID: ScreenTime.bundleID, tier: "family", days: 1, by: author, isForced: true)
      for (number, device) in ["visitor", "former"].enumerated() {
        _ = try await harness.children(of: device, secret: Self.secret(6 + number))
      }
      for (number, device) in ["buyer", "sharer", "trial", "child", "granted", "visitor"].enumerated() {
        #expect(try await Self.consents(device, Self.secret(number + 1), harness).status == 200)
      }
      harness.clock.advance(days: 29)
      _ = try await harness.children(of: "new", secret: Self.secret(8))
      for _ in 0..<2 { try await harness.service.retentionJob.run() }
      #expect(try await harness.count("device_secrets") == 8)

      harness.clock.advance(days: 2)
      for _ in 0..<2 { try await harness.service.retentionJob.run() }
      let kept: Set = ["buyer", "sharer", "trial", "child", "granted"]
      #expect(try await Self.names("device_secrets", "device_id", harness) == kept.union(["new"]))
      // A consent ends with its secret, and its row is kept as long again.
      #expect(try await Self.names("consents", "customer", harness) == kept.union(["visitor"]))
      #expect(try await Self.names("consents WHERE NOT is_given", "customer", harness) == ["visitor"])
      harness.clock.advance(days: 31)
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("consents", "customer", harness) == kept)
      #expect(try await harness.children(of: "visitor", secret: Self.secret(6)).status == 200)
      #expect(try await harness.children(of: "visitor", secret: Self.secret(9)).status == 401)
    }
  }

  @Test func `a device whose lock is held keeps its secret until the next run, and no other does`()
    async throws
  {
    try await withHarness(configuration: ScreenTime.configuration()) { harness in
      for number in 1...3 {
        #expect(try await harness.children(of: "\(number)", secret: Self.secret(number)).status == 200)
      }
      harness.clock.advance(days: 31)
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.device("2")]))
        try await harness.service.retentionJob.run()
      }
      #expect(try await Self.names("device_secrets", "device_id", harness) == ["2"])
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("device_secrets") == 0)
    }
  }

  @Test func `for 30 days a device whose purchase another one took keeps a first secret by a proof alone`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let first = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let second = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      // Old builds, which send no secret.
      for device in ["phone", "tablet"] { _ = try await harness.device(device, shows: first) }
      for device in ["watch", "desk"] { _ = try await harness.device(device, shows: second) }
      let stranger = Self.secret(1)
      for device in ["phone", "watch"] {
        #expect(try await harness.children(of: device, secret: stranger).status == 200)
        #expect(try await harness.children(of: device).status == 200)
      }
      #expect(try await harness.device("phone", shows: second, secret: stranger).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.device("phone", shows: first, secret: Self.secret(2)).status == 200)
      #expect(try await harness.children(of: "phone", secret: Self.secret(2)).status == 200)
      #expect(try await harness.children(of: "phone").status == 401)
      // After that the id is one without a record.
      harness.clock.advance(days: 31)
      #expect(try await harness.children(of: "watch", secret: stranger).status == 200)
      #expect(try await harness.children(of: "watch").status == 401)
    }
  }

  @Test func `a secret is kept for 30 days after another device took the purchase`() async throws {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1), role: "receiptd_app") {
      harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("phone", shows: bought, secret: Self.secret(1))
      harness.clock.advance(days: 31)
      _ = try await harness.device("tablet", shows: bought, secret: Self.secret(2))
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("device_secrets", "device_id", harness) == ["phone", "tablet"])
      harness.clock.advance(days: 31)
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("device_secrets", "device_id", harness) == ["tablet"])
    }
  }

  @Test func `a pairing expires where its parent has nothing on record, and no others`() async throws {
    try await withHarness(configuration: ScreenTime.configuration(), role: "receiptd_app") { harness in
      let ada = try #require(Harness.ada)
      for device in ["trial", "kid"] { _ = try await harness.launch(device) }
      _ = try await harness.pair("before", to: "trial")
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      harness.clock.advance(days: 1)
      #expect(try await harness.pair("child", to: "visitor", secret: Self.secret(1)).status == 201)
      for (child, parent) in [("during", "trial"), ("kid", "stranger")] {
        #expect(try await harness.pair(child, to: parent).status == 201)
      }
      harness.clock.advance(days: 40)
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("devices") == 4)
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      harness.clock.advance(days: 29)
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("devices") == 4)
      #expect(try await harness.count("device_secrets") == 1)

      harness.clock.advance(days: 2)
      try await harness.service.retentionJob.run()
      // The child of one has a trial: the parent's record alone decides.
      let kept: Set = ["before", "during"]
      #expect(try await Self.names("devices", "child_device_id", harness) == kept)
      // The secret of a device that is not paired any more is old, too.
      #expect(try await harness.count("device_secrets") == 0)
      // A pairing that free access does not explain is of a parent that lost its purchase or its trial.
      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, paired_at)
        VALUES (\(ScreenTime.bundleID), 'former', 'late', \(harness.clock.now - 20 * ScreenTime.day))
        """)
      harness.clock.advance(days: 9)
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("devices", "child_device_id", harness) == kept.union(["late"]))
      harness.clock.advance(days: 2)
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("devices", "child_device_id", harness) == kept)
    }
  }

  @Test func `pairings with a customer's device, and the secrets of their parents, expire`() async throws {
    try await withHarness(configuration: ScreenTime.configuration(), role: "receiptd_app") { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("trial", secret: Self.secret(1))
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("buyer", shows: bought, secret: Self.secret(2))
      #expect(try await harness.pair("kid", to: "trial", secret: Self.secret(1)).status == 201)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      for (number, child) in ["trial", "buyer", "kid"].enumerated() {
        let paired = try await harness.pair(
          child, to: "invented-\(number)", secret: Self.secret(3 + number))
        #expect(paired.status == 201)
      }
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      harness.clock.advance(days: 31)
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("devices", "device_id", harness) == ["trial"])
      #expect(try await Self.names("device_secrets", "device_id", harness) == ["trial", "buyer"])
    }
  }

  @Test func `pairings and the secret of a device expire 30 days after it lost its place`() async throws {
    let configuration = try MoveLimitTests.configuration(devices: 2)
    try await withHarness(configuration: configuration, role: "receiptd_app") { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("buyer", shows: bought, secret: Self.secret(1))
      _ = try await harness.launch("tried", account: "anna", secret: Self.secret(2))
      for (number, parent) in ["buyer", "tried"].enumerated() {
        #expect(try await harness.pair("child", to: parent, secret: Self.secret(1 + number)).status == 201)
      }
      harness.clock.advance(days: 20)
      for number in 1...2 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.device("later-\(number)", shows: bought)
        _ = try await harness.launch("tester-\(number)", account: "anna")
      }
      // The children follow to the new devices. Pairings from before they did are at the former ones.
      #expect(try await Self.names("devices", "device_id", harness) == ["later-2", "tester-2"])
      _ = try await harness.pool.query(
        "UPDATE devices SET device_id = CASE device_id WHEN 'later-2' THEN 'buyer' ELSE 'tried' END")
      try await harness.service.retentionJob.run()
      #expect(try await Self.names("devices", "device_id", harness) == ["buyer", "tried"])
      harness.clock.advance(days: 29)
      try await harness.service.retentionJob.run()
      // A place in a purchase is on record for 30 days after another device took it.
      #expect(try await Self.names("devices", "device_id", harness) == ["buyer"])
      harness.clock.advance(days: 2)
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("devices") == 0)
      #expect(try await harness.count("device_secrets") == 0)
    }
  }

  @Test
  func `beyond the app's day no further secret of an unused device is kept, and every device is served`()
    async throws
  {
    try await withScreenTime { harness in
      try await Self.charge(14_999, harness)
      for number in 1...3 {
        let answer = try await harness.children(of: "visitor-\(number)", secret: Self.secret(number))
        #expect(answer.status == 200)
      }
      #expect(try await harness.count("device_secrets") == 1)
      #expect(try await harness.children(of: "visitor-3", secret: Self.secret(9)).status == 200)
      // A quarter is for devices with a proof.
      #expect(try await harness.launch("trial", secret: Self.secret(4)).status == 201)
      #expect(try await harness.count("device_secrets") == 2)
      try await Self.charge(20_000, harness)
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      #expect(try await harness.device("phone", shows: bought, secret: Self.secret(5)).hasToken)
      #expect(try await harness.count("device_secrets") == 2)
      // Now the purchase is on record, and its proof stores the secret.
      #expect(try await harness.device("phone", shows: bought, secret: Self.secret(5)).hasToken)
      #expect(try await harness.count("device_secrets") == 3)
      #expect(try await harness.children(of: "phone").status == 401)
      harness.clock.advance(days: 1)
      #expect(try await harness.children(of: "visitor-3", secret: Self.secret(3)).status == 200)
      #expect(try await harness.count("device_secrets") == 4)
    }
  }

  @Test func `a child joins with a code when invented devices used up the app's day`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", secret: Self.secret(1))
      try await Self.charge(20_000, harness)
      let code = try await harness.code(of: "phone", secret: Self.secret(1)).string("code") ?? ""
      // Several children know the code; it pays for one.
      let answers = try await atOnce(4) {
        try await harness.enter(code, on: "child-\($0)", secret: Self.secret(10 + $0))
      }
      #expect(answers.map(\.status).sorted() == [201, 404, 404, 404])
      #expect(try await harness.count("device_secrets") == 2)
      let children = try await Self.names("devices", "child_device_id", harness)
      let child = try #require(children.count == 1 ? children.first : nil)
      let own = Self.secret(10 + (Int(child.dropFirst("child-".count)) ?? 0))
      #expect(try await harness.parent(of: child, secret: Self.secret(9)).status == 401)
      #expect(try await harness.parent(of: child, secret: own).status == 200)
      // A second code needs the secret that the first one stored.
      let second = try await harness.code(of: "phone", secret: Self.secret(1)).string("code") ?? ""
      #expect(try await harness.enter(second, on: child, secret: Self.secret(9)).status == 401)
      #expect(try await harness.enter(second, on: child, secret: nil).status == 401)
    }
  }

  @Test func `a parent's open pairing codes end with the secret that made them`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "anna", secret: Self.secret(1))
      let code = try await harness.code(of: "phone", secret: Self.secret(1)).string("code") ?? ""
      #expect(try await harness.launch("phone", account: "anna", secret: Self.secret(2)).status == 200)
      #expect(try await harness.children(of: "phone", secret: Self.secret(1)).status == 401)
      #expect(
        try await harness.enter(code, on: "child", secret: Self.secret(9)).code == "pairing_code_invalid")
      let next = try await harness.code(of: "phone", secret: Self.secret(2)).string("code") ?? ""
      #expect(try await harness.enter(next, on: "child", secret: Self.secret(9)).status == 201)
    }
  }

  @Test func `concurrent requests of unused devices keep no more secrets than the day has left`() async throws
  {
    try await withScreenTime { harness in
      try await Self.charge(14_990, harness)
      let answers = try await atOnce(40) {
        try await harness.children(of: "visitor-\($0)", secret: Self.secret($0))
      }
      #expect(answers.allSatisfy { $0.status == 200 })
      #expect(try await harness.count("device_secrets") == 10)
    }
  }

  @Test func `beyond the app's day no device with nothing on record pairs another one`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("trial")
      // Free access allows pairing to every device, also to an invented one.
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      try await Self.charge(14_998, harness)
      #expect(try await harness.pair("child-1", to: "visitor-1").status == 201)
      // A device that is paired already is not charged again.
      #expect(try await harness.pair("child-1", to: "visitor-1").status == 200)
      // The first pairing is no record that frees the next ones.
      #expect(try await harness.pair("child-2", to: "visitor-1").status == 201)
      for device in ["visitor-1", "visitor-2"] {
        let refused = try await harness.pair("child-3", to: device)
        #expect(refused.status == 429 && refused.code == "rate_limited")
        let wait = try #require(refused.headers[.retryAfter].flatMap { Int($0) })
        #expect((1...86_400).contains(wait))
      }
      #expect(try await harness.count("devices") == 2)
      #expect(try await harness.pair("child-1", to: "visitor-1", name: "Emma's iPad").status == 200)
      #expect(try await harness.pair("child-1", to: "trial").status == 201)
      harness.clock.advance(days: 1)
      #expect(try await harness.pair("child-3", to: "visitor-1").status == 201)
    }
  }

  @Test func `20 pairings of one child's device a day are of devices with nothing on record`()
    async throws
  {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("trial")
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      for number in 1...DeviceSecretRows.pairingsOfChild {
        #expect(try await harness.pair("victim", to: "visitor-\(number)").status == 201)
      }
      let refused = try await harness.pair("victim", to: "visitor")
      #expect(refused.status == 429 && refused.code == "rate_limited")
      #expect(try await harness.pair("other", to: "visitor").status == 201)
      #expect(try await harness.pair("victim", to: "trial").status == 201)
      // Codes count apart.
      let code = try #require(try await harness.code(of: "inviting").string("code"))
      #expect(try await harness.enter(code, on: "victim").status == 201)
      harness.clock.advance(days: 1)
      #expect(try await harness.pair("victim", to: "visitor").status == 201)
    }
  }

  @Test(arguments: [true, false])
  func `unpairing gives back none of the 20 pairings of one child's device`(isByCode: Bool) async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      func pair(to parent: String) async throws -> Answer {
        guard isByCode else { return try await harness.pair("victim", to: parent) }
        let code = try #require(try await harness.code(of: parent).string("code"))
        return try await harness.enter(code, on: "victim")
      }
      for number in 1...DeviceSecretRows.pairingsOfChild {
        #expect(try await pair(to: "visitor-\(number)").status == 201)
        #expect(try await harness.unpair("victim", from: "visitor-\(number)").status == 200)
      }
      let refused = try await pair(to: "visitor")
      #expect(refused.status == 429 && refused.code == "rate_limited")
    }
  }

  @Test func `a secret that is replaced again and again leaves ten records a day, and each takes effect`()
    async throws
  {
    try await withScreenTime { harness in
      for turn in 0..<30 {
        let answer = try await harness.launch("phone", account: "a", secret: Self.secret(1 + turn % 2))
        #expect([200, 201].contains(answer.status))
        #expect(try await harness.children(of: "phone", secret: Self.secret(1 + turn % 2)).status == 200)
      }
      #expect(
        try await harness.actions().map(\.action) == Array(repeating: "replace-device-secret", count: 10))
      harness.clock.advance(days: 1)
      _ = try await harness.launch("phone", account: "a", secret: Self.secret(3))
      #expect(try await harness.actions().count == 11)
    }
  }

  @Test func `records about secrets of devices that lost their purchase end with the app's day`() async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 2)) { harness in
      func replaced() async throws -> Int {
        try await harness.actions().count { $0.action == "replace-device-secret" }
      }
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      func shows(_ device: String, _ secret: Int? = nil) async throws -> String? {
        harness.clock.advance(seconds: 1)
        return try await harness.device(device, shows: bought, secret: secret.map(Self.secret)).code
      }
      // The place goes back to the first two devices that lose it, so the third one stays without it.
      for device in ["phone", "tablet", "first", "tablet", "second", "tablet"] {
        #expect(try await shows(device) == nil)
      }
      harness.clock.advance(days: 1)
      for device in ["second", "tablet"] { #expect(try await shows(device) == nil) }
      #expect(try await shows("lost", 1) == nil)
      #expect(try await harness.pair("child", to: "lost", secret: Self.secret(1)).status == 201)
      for device in ["tablet", "later"] { #expect(try await shows(device) == nil) }
      try await Self.charge(4_999, harness)
      for number in 2...4 { #expect(try await shows("lost", number) == "device_limit_reached") }
      #expect(try await replaced() == 1)
      // Each takes effect.
      #expect(try await harness.children(of: "lost", secret: Self.secret(4)).status == 200)
      // A device that has the purchase is not charged.
      for number in 5...6 { #expect(try await shows("later", number) == nil) }
      #expect(try await replaced() == 2)
    }
  }

  @Test func `records about secrets of unused devices end with the app's day`() async throws {
    try await withScreenTime { harness in
      try await Self.charge(4_999, harness)
      for turn in 0..<3 {
        #expect(try await harness.children(of: "phone", secret: Self.secret(1)).status == 200)
        // A purchase of the sandbox is not on record, and its proof forgets the secret.
        let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID, in: .sandbox)
        _ = try await harness.device("phone", shows: bought)
        #expect(try await harness.count("device_secrets") == 0, "\(turn)")
      }
      #expect(try await harness.actions().count { $0.action == "forget-device-secret" } == 0)
    }
  }
}
