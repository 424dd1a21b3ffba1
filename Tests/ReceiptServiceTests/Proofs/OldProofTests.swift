import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Ledger
@testable import Proofs
@testable import ReceiptService
@testable import Support

/// Purchases of which a client's old proof tells first, when the App Store may have refunded them since.
enum OldProof {
  static let keyless = ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""]

  /// A purchase that was refunded after a month, in the eleventh month. Its notifications are older than the App
  /// Store's history.
  static func refunded(
    _ productID: String, _ harness: Harness, token: UUID? = nil
  ) throws -> SignedOutcome {
    let bought = try harness.buy(productID, token: token)
    harness.clock.advance(days: 31)
    _ = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
    harness.clock.advance(days: 270)
    return bought
  }

  /// The columns of a purchase's old proof.
  struct Mark: Equatable {
    var signedAt: Date?
    var isDue: Bool
    var isAsked: Bool
  }

  static func mark(_ id: String, _ harness: Harness) async throws -> Mark {
    let row = try #require(
      try await harness.pool.query(
        """
        SELECT old_proof_signed_at, old_proof_due_at IS NOT NULL AS is_due, old_proof_asked_at IS NOT NULL AS is_asked
        FROM subscriptions WHERE original_transaction_id = \(id)
        """
      ).first)
    return Mark(
      signedAt: try row.decode("old_proof_signed_at"), isDue: try row.decode("is_due"),
      isAsked: try row.decode("is_asked"))
  }

  /// The number of requests to the App Store Server API.
  static func calls(_ harness: Harness) async throws -> Double {
    try await harness.scrape().counts("receiptd_store_calls_total").values.reduce(0, +)
  }

  /// Whether purchases give access, by answers to requests that are sent at once.
  static func areGranted(_ bought: [SignedOutcome], _ harness: Harness) async throws -> [Bool] {
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for purchase in bought {
        group.addTask {
          let answer = try await harness.validate(["signedTransaction": purchase.signedTransaction])
          guard let isGranted = answer.bool("entitlements.isAccessGranted") else { throw CancellationError() }
          return isGranted
        }
      }
      return try await group.reduce(into: [Bool]()) { $0.append($1) }
    }
  }

  /// A job with a store of the test for one app, and its API.
  static func oldProofs(
    _ harness: Harness, clock: StoreClock = .system,
    _ answer: @escaping @Sendable (Int) -> CountedStore.Answer
  ) throws -> (OldProofs, AppStoreServerAPI) {
    let key = harness.store.identity.connectKey
    let api = AppStoreServerAPI(
      transport: CountedStore(answer: answer),
      credentials: try AppStoreCredentials(
        privateKey: key.pem, keyID: key.keyID, issuerID: key.issuerID),
      bundleID: TestApps.climbing, clock: clock)
    let own = harness.service.proofs.oldProofs
    let oldProofs = OldProofs(
      lookup: StoreLookup(
        apis: [TestApps.climbing: api], verifier: own.lookup.verifier, logger: own.logger),
      ledger: own.ledger, catalog: own.catalog, work: own.work)
    return (oldProofs, api)
  }

  /// What support's page says of the purchase's old proof.
  static func sentence(_ id: String, _ harness: Harness) async throws -> String? {
    let report = try await harness.desk.customer(id)
    let purchase = try #require((report.customers.flatMap(\.purchases) + report.unclaimed).first)
    if let sentence = purchase.oldProof {
      #expect(report.description.replacing(/\s+/, with: " ").contains(sentence))
    }
    return purchase.oldProof
  }
}

/// What the ledger marks, and what a request asks about.
@Suite struct OldProofTests {
  @Test(arguments: [TestApps.lifetime, TestApps.annual])
  func `until the App Store has answered about an old proof, offline use ends after offlineGraceDays`(
    productID: String
  ) async throws {
    let paidTime = TestApps.json.replacing(
      #""name": "Climbing","#, with: #""name": "Climbing", "offline": "paidTime","#)
    try await withHarness(configuration: paidTime, environment: OldProof.keyless) { harness in
      let bought = try harness.buy(productID)
      harness.clock.advance(days: 20)
      let user = UUID()
      let token = try await harness.token(for: user)
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      let grace = harness.clock.now + 7 * 86_400
      #expect(answer.date("entitlements.offlineGraceUntil") == grace)
      #expect(try await harness.premium(user).date("entitlements.offlineGraceUntil") == grace)
      // An App Store that does not know the purchase confirms nothing.
      let (forgetful, _) = try OldProof.oldProofs(harness) { _ in .unknown }
      #expect(try await forgetful.run() == 1)
      #expect(try await harness.count("subscriptions WHERE old_proof_unknown_at IS NOT NULL") == 1)
      let again = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
      #expect(again.date("entitlements.offlineGraceUntil") == grace)
      #expect(try await harness.premium(user).date("entitlements.offlineGraceUntil") == grace)
      // The answer, as the job records it.
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET old_proof_asked_at = now(), old_proof_due_at = NULL, old_proof_unknown_at = NULL"
      )
      let end =
        productID == TestApps.lifetime
        ? "9999-12-31T23:59:59Z" : bought.transaction.expiresDate.map { RFC3339.string(from: $0) }
      #expect(try await harness.premium(user).string("entitlements.offlineGraceUntil") == end)
    }
  }

  @Test func `a request waits for the answer that another server asks for`() async throws {
    try await withHarness { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      let proofs = try await harness.service(configuration: TestApps.json).proofs.oldProofs
      // Another server has recorded the proof and asks.
      let keyless = try await harness.service(configuration: TestApps.json, settings: OldProof.keyless)
      try await harness.serving(keyless) { address in
        _ = try await harness.send(
          .post, "/api/v1/subscriptions/validate",
          json: #"{"signedTransaction": "\#(bought.signedTransaction)"}"#,
          to: address)
      }
      await keyless.close()
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET old_proof_due_at = \(harness.clock.now + 600) WHERE original_transaction_id = \(id)"
      )
      let waiting = Task { try await harness.validate(["signedTransaction": bought.signedTransaction]) }
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET old_proof_due_at = \(harness.clock.now) WHERE original_transaction_id = \(id)"
      )
      _ = try await proofs.run()
      let answer = try await waiting.value
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test(arguments: [TestApps.lifetime, TestApps.annual])
  func `a proof from before a refund that receiptd has not seen gives no access`(productID: String)
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try OldProof.refunded(productID, harness)
      let id = bought.originalTransactionID
      let answer = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: try await harness.token(for: user))
      #expect(answer.status == 200)
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await harness.row(of: id).userID == user)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await OldProof.calls(harness) == 1)
      let signedAt = bought.transaction.signedDate
      #expect(
        try await OldProof.mark(id, harness) == OldProof.Mark(signedAt: signedAt, isDue: false, isAsked: true)
      )
      #expect(
        try await OldProof.sentence(id, harness)
          == "first known by a proof of \(signedAt.rfc3339); the App Store was asked at \(harness.clock.now.rfc3339)"
      )
      // What the answer changed is in support's record.
      #expect(try await harness.actions().map(\.action) == ["reconcile"])
      let view = try await harness.pool.query(
        "SELECT old_proof_signed_at, old_proof_asked_at FROM support_subscriptions")
      #expect(try view[0].decode("old_proof_signed_at", as: Date.self) == signedAt)
      #expect(try view[0].decode("old_proof_asked_at", as: Date.self) == harness.clock.now)
    }
  }

  @Test func `an old proof of a purchase that was not refunded gives access, and costs one request`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.lifetime)
      harness.clock.advance(days: 300)
      for _ in 0..<4 {
        let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
        #expect(answer.bool("entitlements.isAccessGranted") == true)
      }
      _ = try await harness.service.proofs.oldProofs.run()
      #expect(try await OldProof.calls(harness) == 1)
      #expect(try await harness.actions() == [])
    }
  }

  @Test func `many requests with one old proof at a time cost one request to the App Store`() async throws {
    try await withHarness { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let answers = try await OldProof.areGranted(Array(repeating: bought, count: 12), harness)
      // Those that did not ask wait for the same answer.
      #expect(answers.allSatisfy { !$0 })
      #expect(try await OldProof.calls(harness) == 1)
    }
  }

  @Test func `an answer that is slower than a request waits is no outage, and later requests get it`()
    async throws
  {
    try await withHarness { harness in
      harness.store.add(.slow(2.5))
      // As many as the failures that open the circuit breaker.
      var bought: [SignedOutcome] = []
      for _ in 0..<5 { bought.append(try harness.buy(TestApps.lifetime)) }
      harness.clock.advance(days: 31)
      for purchase in bought {
        _ = try harness.store.perform(.refundLatest, on: purchase.originalTransactionID)
      }
      harness.clock.advance(days: 270)
      let first = try await OldProof.areGranted(bought, harness)
      #expect(first.allSatisfy { $0 })
      var later = first
      for _ in 0..<10 where later.contains(true) { later = try await OldProof.areGranted(bought, harness) }
      #expect(later.allSatisfy { !$0 })
      #expect(try await OldProof.calls(harness) == 5)
      let api = try #require(harness.service.proofs.oldProofs.lookup.apis[TestApps.climbing])
      #expect(!api.isCircuitOpen(.production))
    }
  }

  @Test func `a fresh proof, a known transaction and an ended period are not asked about`() async throws {
    try await withHarness { harness in
      let fresh = try harness.buy(TestApps.lifetime)
      harness.clock.advance(seconds: OldProofRows.age)
      _ = try await harness.validate(["signedTransaction": fresh.signedTransaction])
      let (_, known) = try await harness.customer(buys: TestApps.lifetime)
      let ended = try harness.buy(TestApps.monthly)
      harness.clock.advance(days: 100)
      for bought in [fresh, known, ended] {
        #expect(try await harness.validate(["signedTransaction": bought.signedTransaction]).status == 200)
        #expect(
          try await OldProof.mark(bought.originalTransactionID, harness)
            == OldProof.Mark(signedAt: nil, isDue: false, isAsked: false))
        #expect(try await OldProof.sentence(bought.originalTransactionID, harness) == nil)
      }
      #expect(try await OldProof.calls(harness) == 0)
    }
  }

  @Test func `an old proof of the current period is asked about, although an earlier period is known`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.annual)
      let id = bought.originalTransactionID
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try harness.store.perform(.renew, on: id)
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 31)
      // The device has a fresh signature of the first period.
      var first = bought.transaction
      first.signedDate = harness.clock.now
      _ = try await harness.validate(["signedTransaction": harness.sign(first)])
      #expect(try await OldProof.calls(harness) == 0)
      let answer = try await harness.validate(["signedTransaction": renewed.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
    }
  }

  @Test func `an old proof from after a reversed refund is asked about, although the refund is known`()
    async throws
  {
    try await withHarness { harness in
      let id = try harness.buy(TestApps.lifetime).originalTransactionID
      harness.clock.advance(days: 31)
      let refunded = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 31)
      let reversed = try harness.store.perform(.reverseRefund(transactionID: nil), on: id)
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 200)
      let before = try await harness.validate(["signedTransaction": refunded.signedTransaction])
      #expect(before.bool("entitlements.isAccessGranted") == false)
      #expect(try await OldProof.calls(harness) == 0)
      let answer = try await harness.validate(["signedTransaction": reversed.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await OldProof.calls(harness) == 1)
    }
  }

  @Test
  func `an old proof that lifts a refund is asked about, although another transaction is the current one`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.lifetime)
      let id = bought.originalTransactionID
      harness.clock.advance(days: 31)
      let refunded = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 31)
      let reversed = try harness.store.perform(.reverseRefund(transactionID: nil), on: id)
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 200)
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      copy.purchaseDate += 86_400
      copy.signedDate = harness.clock.now
      // A history from the purchase on would have told of a refund. Later it has a gap.
      _ = try await harness.pool.query(
        """
        INSERT INTO reconcile_positions (bundle_id, environment, history_read_until, history_begins_at, claimed_at)
        VALUES (\(TestApps.climbing), 'Production', \(harness.clock.now), \(bought.transaction.purchaseDate - 2 * 86_400), now())
        """)
      let fresh = try await harness.validate(["signedTransaction": harness.sign(copy)])
      #expect(fresh.bool("entitlements.isAccessGranted") == true)
      _ = try await harness.pool.query("DELETE FROM reconcile_positions")
      let before = try await harness.validate(["signedTransaction": refunded.signedTransaction])
      #expect(before.bool("entitlements.isAccessGranted") == false)
      #expect(try await OldProof.calls(harness) == 0)
      let answer = try await harness.validate(["signedTransaction": reversed.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(
        try await OldProof.mark(id, harness)
          == OldProof.Mark(signedAt: reversed.transaction.signedDate, isDue: false, isAsked: true))
      // The original transaction and its copy.
      #expect(try await OldProof.calls(harness) == 2)
    }
  }

  @Test func `an old proof of a later end is asked about, although an earlier end is known`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.annual)
      let id = bought.originalTransactionID
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end - 20 * 86_400)
      let extended = try harness.store.perform(.extend(days: 90), on: id)
      harness.clock.advance(days: 5)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.set(end + 10 * 86_400)
      let before = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(before.bool("entitlements.isAccessGranted") == false)
      #expect(try await OldProof.calls(harness) == 0)
      let answer = try await harness.validate(["signedTransaction": extended.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await OldProof.calls(harness) == 1)
    }
  }

  @Test func `a history that reaches back to the proof has a refund since, so nothing is asked`() async throws
  {
    try await withHarness { harness in
      // The history begins with this notification; before, Apple may have had no address to notify.
      _ = try harness.buy()
      harness.clock.advance(days: 1)
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      var covered = try harness.buy(TestApps.lifetime).transaction
      covered.transactionId = "77"
      covered.originalTransactionId = "77"
      harness.clock.advance(days: 3)
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      let calls = try await OldProof.calls(harness)
      _ = try await harness.validate(["signedTransaction": harness.sign(covered)])
      #expect(
        try await OldProof.mark("77", harness) == OldProof.Mark(signedAt: nil, isDue: false, isAsked: false))
      var before = covered
      before.transactionId = "78"
      before.originalTransactionId = "78"
      before.signedDate = harness.clock.now - 5 * 86_400
      before.purchaseDate = before.signedDate
      _ = try await harness.validate(["signedTransaction": harness.sign(before)])
      // The App Store does not know this one.
      #expect(
        try await OldProof.mark("78", harness)
          == OldProof.Mark(signedAt: before.signedDate, isDue: true, isAsked: true))
      #expect(try await OldProof.calls(harness) == calls + 1)
      #expect(try await harness.row(of: "78").status == "active")
      #expect(try await OldProof.sentence("78", harness)?.hasSuffix("the App Store did not know it") == true)
      // It may know it later, so it is asked daily for a week, and then weekly.
      for _ in 0..<7 {
        #expect(try await harness.service.proofs.oldProofs.run() == 0)
        harness.clock.advance(days: 1)
        #expect(try await harness.service.proofs.oldProofs.run() == 1)
      }
      for _ in 0..<3 {
        harness.clock.advance(days: 6)
        #expect(try await harness.service.proofs.oldProofs.run() == 0)
        harness.clock.advance(days: 1)
        #expect(try await harness.service.proofs.oldProofs.run() == 1)
      }
      #expect(
        try await OldProof.mark("78", harness)
          == OldProof.Mark(signedAt: before.signedDate, isDue: true, isAsked: true))
      var lines: [String] = []
      _ = await Doctor(environment: harness.environment, clock: harness.clock.service).check {
        lines.append($0.line)
      }
      let line = try #require(lines.first { $0.contains("old proofs of \(TestApps.climbing)") })
      #expect(line.hasPrefix("warn"))
      #expect(line.contains("the App Store does not know 1 purchases"))
    }
  }

  @Test func `a history that was not read for hours does not cover a proof`() async throws {
    try await withHarness { harness in
      _ = try harness.buy()
      harness.clock.advance(days: 1)
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      harness.clock.advance(days: 1)
      var shown = try harness.buy(TestApps.lifetime).transaction
      shown.transactionId = "77"
      shown.originalTransactionId = "77"
      harness.clock.advance(days: 3)
      _ = try await harness.validate(["signedTransaction": harness.sign(shown)])
      // The App Store does not know this one.
      #expect(
        try await OldProof.mark("77", harness)
          == OldProof.Mark(signedAt: shown.signedDate, isDue: true, isAsked: true))
    }
  }

  @Test func `a history that was read again after a gap begins after the gap`() async throws {
    try await withHarness { harness in
      func begin() async throws -> Date {
        try #require(
          try await harness.pool.query(
            """
            SELECT history_begins_at FROM reconcile_positions
            WHERE bundle_id = \(TestApps.climbing) AND environment = 'Production'
            """
          ).first
        ).decode("history_begins_at", as: Date.self)
      }
      let start = harness.clock.now
      _ = try harness.buy()
      harness.clock.advance(days: 1)
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      #expect(try await begin() < start + 86_400)
      harness.clock.advance(days: 100)
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      #expect(try await begin() < start + 86_400)
      harness.clock.advance(days: 200)
      _ = try harness.buy()
      harness.clock.advance(days: 1)
      _ = await harness.service.reconcile(bundleID: TestApps.climbing)
      #expect(try await begin() > start + 101 * 86_400)
    }
  }

  @Test func `an old proof of a restored copy of a refunded purchase gives no access`() async throws {
    try await withHarness { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      // The App Store does not know the copy, and signs the refund on the original transaction.
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      let answer = try await harness.validate(["signedTransaction": harness.sign(copy)])
      #expect(answer.status == 200)
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      let id = bought.originalTransactionID
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(
        try await OldProof.mark(id, harness)
          == OldProof.Mark(signedAt: copy.signedDate, isDue: false, isAsked: true))
      #expect(try await OldProof.calls(harness) == 2)
    }
  }

  @Test func `the original transaction is asked about although the App Store knows its restored copy`()
    async throws
  {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      _ = try await harness.validate(["signedTransaction": harness.sign(copy)])
      let id = bought.originalTransactionID
      #expect(try await harness.row(of: id).status == "active")
      var original = bought.transaction
      original.revocationDate = original.purchaseDate + 31 * 86_400
      let signed = try [original, copy].map { info in
        var info = info
        info.signedDate = harness.clock.now
        return try harness.sign(info)
      }
      let (oldProofs, _) = try OldProof.oldProofs(harness) { number in
        .body(#"{"signedTransactionInfo": "\#(signed[(number - 1) % 2])"}"#)
      }
      #expect(try await oldProofs.run() == 1)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }
}
