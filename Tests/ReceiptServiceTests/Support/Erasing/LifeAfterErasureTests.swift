import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService
@testable import Support

/// What happens to the purchases of an erased customer later.
@Suite struct LifeAfterErasureTests {
  @Test func `later notifications count as money, and bring neither the id nor the token back`() async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.erase(user.uuidString)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: id)
      harness.clock.advance(days: 1)
      try await harness.happens(.setAutoRenew(false), to: id)
      try await harness.happens(.refundLatest, to: id)
      let row = try await harness.row(of: id)
      #expect(row.status == "cancelled" && row.transactionID == renewed.transactionID)
      #expect(row.userID == nil)
      #expect(try await harness.count("transactions") == 2)
      #expect(try await harness.count("notifications") == 4)
      let token = user.uuidString.lowercased()
      #expect(try await harness.tables(with: token) == [])
      #expect(try await harness.tables(with: #require(bought.transaction.appTransactionId)) == [])
      // What support and the numbers need is still there.
      let paid = try await harness.pool.query(
        "SELECT source, price::text, refunded::text FROM support_transactions ORDER BY purchase_date")
      #expect(try paid.map { try $0.decode("source", as: String.self) } == ["webhook", "webhook"])
      #expect(try paid[1].decode("refunded", as: String.self) == "4.99")
      // A repeated notification is a duplicate, and cannot be replayed.
      await harness.arrives(bought.notification)
      await #expect(throws: ReplayFailure.erased) {
        _ = try await harness.service.replay(
          #require(UUID(uuidString: bought.notification.uuid)), by: #require(Harness.ada))
      }
      let page = try await harness.desk.customer(id).description
      #expect(page.contains("purchases without an owner"), "\(page)")
      #expect(page.contains("its customer was erased"))
      #expect(page.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }
  }

  @Test(arguments: [true, false])
  func `a user who shows the signed transaction again owns the purchase, whatever the old token names`(
    isSameUser: Bool
  ) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.erase(user.uuidString)
      let person = isSameUser ? user : UUID()
      let answer = try await harness.sync(
        [bought.signedTransaction], user: person, token: harness.token(for: person))
      #expect(answer.bool("isPremium") == true)
      #expect(try await harness.row(of: id).userID == person)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: id)
      #expect(try await harness.row(of: id).userID == person)
      #expect(try await harness.isPremium(person))
      // Apple goes on signing the old token: the new customer's payloads are kept as signed.
      if !isSameUser { #expect(try await harness.tables(with: user.uuidString) == ["notifications"]) }
    }
  }

  @Test
  func `devices of old builds keep and join the purchase of an erased device, once another device owns it`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      _ = try await harness.oldBuild("old-phone", validates: bought.transactionID)
      #expect(try await harness.pair("tablet", to: "old-phone").status == 201)
      try await harness.erase("phone", of: ScreenTime.bundleID)
      func hasAccess(_ device: String) async throws -> Bool {
        try await harness.entitlements(device).bool("entitlements.isAccessGranted") == true
      }
      #expect(try await hasAccess("old-phone"))
      // The purchase has no owner. The old phone keeps access and does not become the owner; a stranger's device with
      // the transaction's id gets no access.
      for device in ["old-phone", "stranger"] {
        _ = try await harness.oldBuildRequest(device, bought.transactionID)
        #expect(try await hasAccess(device) == (device == "old-phone"))
      }
      _ = try await harness.device("new-phone", shows: bought)
      for device in ["new-phone", "old-phone", "tablet"] { #expect(try await hasAccess(device)) }
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "new-phone")
      _ = try await harness.oldBuild("old-tablet", validates: bought.transactionID)
      #expect(try await hasAccess("old-tablet"))
    }
  }

  @Test
  func `a device from which support took a purchase does not have it back by the erasure of the other one`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("stranger", buys: ScreenTime.family)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      try await harness.erase("phone", of: ScreenTime.bundleID)
      func shows(_ device: String) async throws -> Answer {
        try await harness.validate(["signedTransaction": bought.signedTransaction, "deviceID": device])
      }
      #expect(try await shows("stranger").code == "belongs_to_another_customer")
      #expect(try await shows("new-phone").status == 200)
      #expect(try await shows("stranger").status == 409)
    }
  }

  @Test func `a token of another user names the owner of an erased customer's purchase`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.erase(user.uuidString)
      let other = UUID()
      harness.clock.advance(seconds: 60)
      var named = bought.transaction
      named.appAccountToken = other
      named.signedDate = harness.clock.now
      #expect(try await harness.validate(["signedTransaction": harness.sign(named)]).status == 200)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == other)
    }
  }

  /// Two users of one Apple Account: one bought first, the other bought again.
  @Test
  func `a former user gets what that user buys after the erasure of the present one, and nothing before`()
    async throws
  {
    try await withHarness { harness in
      let (former, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let present = UUID()
      func signs(_ number: Int, _ token: UUID, days: Double) throws -> String {
        var period = bought.transaction
        if number > 0 { period.transactionId = "\(number)\(bought.transactionID.dropFirst())" }
        period.purchaseDate = bought.transaction.purchaseDate + days * 86_400
        period.expiresDate = try #require(bought.transaction.expiresDate) + days * 86_400
        period.appAccountToken = token
        period.signedDate = harness.clock.now
        return try harness.sign(period)
      }
      func shows(_ jws: String) async throws -> UUID? {
        #expect(try await harness.validate(["signedTransaction": jws]).status == 200)
        return try await harness.row(of: id).userID
      }
      harness.clock.advance(days: 100)
      #expect(try await shows(signs(8, present, days: 100)) == present)
      try await harness.erase(present.uuidString)
      harness.clock.advance(seconds: 60)
      #expect(try await shows(signs(0, former, days: 0)) == nil)
      #expect(try await shows(signs(8, present, days: 100)) == nil)
      harness.clock.advance(days: 100)
      #expect(try await shows(signs(9, former, days: 200)) == former)
    }
  }

  @Test func `the erasure of a former user gives a purchase to no third one`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let (second, present) = (UUID(), UUID())
      harness.clock.advance(days: 100)
      var again = bought.transaction
      again.transactionId = "8\(bought.transactionID.dropFirst())"
      again.purchaseDate = harness.clock.now
      again.expiresDate = harness.clock.now + 30 * 86_400
      again.appAccountToken = second
      again.signedDate = harness.clock.now
      #expect(try await harness.validate(["signedTransaction": harness.sign(again)]).status == 200)
      _ = try await harness.desk.transfer(
        id, to: present.uuidString, by: try #require(Harness.ada), isForced: true)
      try await harness.erase(second.uuidString)
      again.signedDate = harness.clock.now + 60
      harness.clock.advance(seconds: 120)
      #expect(try await harness.validate(["signedTransaction": harness.sign(again)]).status == 200)
      #expect(try await harness.row(of: id).userID == present)
    }
  }

  /// Two tokens of one transaction: the erased user's was the later one.
  @Test(arguments: [true, false])
  func `after the erasure of a former user an earlier token does not decide about another user's purchase`(
    isKnown: Bool
  ) async throws {
    try await withHarness { harness in
      let earlier = UUID()
      let bought = try harness.buy(token: earlier)
      let id = bought.originalTransactionID
      let earlierToken = try await harness.token(for: earlier)
      let old = ["signedTransaction": bought.signedTransaction]
      if isKnown {
        #expect(try await harness.validate(old, token: earlierToken).status == 200)
        #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      }
      let (former, present) = (UUID(), UUID())
      func signs(_ token: UUID) async throws {
        harness.clock.advance(seconds: 60)
        var named = bought.transaction
        named.appAccountToken = token
        named.signedDate = harness.clock.now
        #expect(try await harness.validate(["signedTransaction": harness.sign(named)]).status == 200)
      }
      func owner() async throws -> UUID? { try await harness.row(of: id).userID }
      try await signs(former)
      #expect(try await owner() == former)
      _ = try await harness.desk.transfer(
        id, to: present.uuidString, by: try #require(Harness.ada), isForced: true)
      try await harness.erase(former.uuidString)
      #expect(try await harness.validate(old, token: harness.token(for: earlier)).status == 409)
      #expect(try await owner() == present)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      if isKnown {
        let uuid = try #require(UUID(uuidString: bought.notification.uuid))
        _ = try await harness.service.replay(uuid, by: #require(Harness.ada))
      }
      #expect(try await owner() == present)
      // Apple goes on signing the erased user's token, and a later one decides.
      try await signs(former)
      #expect(try await owner() == present)
      #expect(try await harness.tables(with: former.uuidString).isEmpty)
      try await signs(earlier)
      #expect(try await owner() == earlier)
    }
  }

  @Test func `erasing a device that has the number of a queued row leaves the record of the row`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, actor, reason, details)
        VALUES ('requeue', \(ScreenTime.bundleID), '2000000000000001', 'ada', 'operator', '', '{"queue": "store_calls", "id": "3"}')
        """)
      _ = try await harness.device("3", buys: ScreenTime.individual)
      try await harness.erase("3")
      let rows = try await harness.pool.query(
        "SELECT details ->> 'id' AS id FROM support_actions WHERE action = 'requeue'")
      #expect(try rows.map { try $0.decode("id", as: String.self) } == ["3"])
    }
  }

  @Test func `a bare transaction id does not take an erased customer's purchase`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      try await harness.erase("phone")
      let answer = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "thief", "bundleID": ScreenTime.bundleID,
      ])
      // The answer is about the purchase; the device gets nothing.
      #expect(answer.status == 200)
      #expect(try await harness.entitlements("thief").bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == nil)
      _ = try await harness.device("phone", shows: bought)
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone")
    }
  }

  @Test func `an erasure gives the Apple Account no second trial, and a returned device can set a secret`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "anna")
      harness.clock.advance(days: 10)
      try await harness.erase("phone")
      let again = try await harness.launch("phone", account: "anna", secret: ScreenTime.secret(1))
      #expect(again.status == 200)
      #expect(again.date("trial.endsAt") == harness.clock.now + 20 * ScreenTime.day)
      #expect(try await harness.count("device_secrets") == 1)
      #expect(try await harness.launch("tablet", account: "anna").status == 200)
      #expect(try await harness.launch("phone of Boris", account: "boris").status == 201)
    }
  }

  @Test func `the other devices of a shared purchase keep it, and one of them owns it`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("old-phone", buys: ScreenTime.individual)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      try await harness.erase("old-phone")
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "new-phone")
      #expect(try await harness.entitlements("new-phone").bool("entitlements.isAccessGranted") == true)
      #expect(try await harness.entitlements("old-phone").bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.tables(with: "old-phone", except: ["outbox"]) == [])
      // A device that shares a purchase is erased alone.
      _ = try await harness.device("third-phone", shows: bought)
      try await harness.erase("third-phone")
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "new-phone")
      #expect(try await harness.tables(with: "third-phone", except: ["outbox"]) == [])
    }
  }

  @Test func `a paired device is erased without its parent`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.device("parent", buys: ScreenTime.family)
      _ = try await harness.pair("kid-1", to: "parent", name: "Kim")
      try await harness.erase("kid-1")
      #expect(try await harness.tables(with: "kid-1", except: ["outbox"]) == [])
      #expect(try await harness.entitlements("parent").bool("entitlements.isAccessGranted") == true)
    }
  }

  @Test func `an erased grant ends, and no sweep writes the pseudonym anywhere`() async throws {
    try await withHarness { harness in
      let user = UUID()
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3,
        by: #require(Harness.ada), isForced: true)
      #expect(try await harness.isPremium(user))
      try await harness.erase(user.uuidString)
      #expect(try await !harness.isPremium(user))
      try await harness.pass(days: 5)
      #expect(try await harness.count("profiles") == 0)
      #expect(try await harness.count("user_preferences") == 0)
    }
  }
}
