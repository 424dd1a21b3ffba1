import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Text

@testable import ReceiptService

/// Purchases of which a client's old proof tells first, when the App Store may have refunded them since.
@Suite struct OldProofTests {
  private static let keyless = ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""]

  /// A purchase that was refunded after a month, in the eleventh month. Its notifications are older than the App Store's history.
  private static func refunded(
    _ productID: String, _ harness: Harness, token: UUID? = nil
  ) throws -> SignedOutcome {
    let bought = try harness.buy(productID, token: token)
    harness.clock.advance(days: 31)
    _ = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
    harness.clock.advance(days: 270)
    return bought
  }

  /// The columns of a purchase's old proof.
  private struct Mark: Equatable {
    var signedAt: Date?
    var isDue: Bool
    var isAsked: Bool
  }

  private static func mark(_ id: String, _ harness: Harness) async throws -> Mark {
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
  private static func calls(_ harness: Harness) async throws -> Double {
    try await harness.scrape().counts("receiptd_store_calls_total").values.reduce(0, +)
  }

  /// Whether purchases give access, by answers to requests that are sent at once.
  private static func areGranted(_ bought: [SignedOutcome], _ harness: Harness) async throws -> [Bool] {
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
  private static func oldProofs(
    _ harness: Harness, clock: StoreClock = .system,
    _ answer: @escaping @Sendable (Int) -> CountedStore.Answer
  ) throws -> (OldProofs, AppStoreServerAPI) {
    let key = harness.store.identity.connectKey
    let api = AppStoreServerAPI(
      transport: CountedStore(answer: answer),
      credentials: try AppStoreCredentials(
        privateKey: key.pem, keyID: key.keyID, issuerID: key.issuerID),
      bundleID: TestApps.climbing, clock: clock)
    let own = harness.service.oldProofs
    let oldProofs = OldProofs(
      lookup: StoreLookup(
        apis: [TestApps.climbing: api], verifier: own.lookup.verifier, logger: own.logger),
      ledger: own.ledger, pool: own.pool, catalog: own.catalog, clock: own.clock, logger: own.logger)
    return (oldProofs, api)
  }

  /// What support's page says of the purchase's old proof.
  private static func sentence(_ id: String, _ harness: Harness) async throws -> String? {
    let report = try await harness.desk.customer(id)
    let purchase = try #require((report.customers.flatMap(\.purchases) + report.unclaimed).first)
    if let sentence = purchase.oldProof {
      #expect(report.description.replacing(/\s+/, with: " ").contains(sentence))
    }
    return purchase.oldProof
  }

  // MARK: Requests

  @Test(arguments: [TestApps.lifetime, TestApps.annual])
  func `a proof from before a refund that receiptd has not seen gives no access`(productID: String)
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try Self.refunded(productID, harness)
      let id = bought.originalTransactionID
      let answer = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: try await harness.token(for: user))
      #expect(answer.status == 200)
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await harness.row(of: id).userID == user)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await Self.calls(harness) == 1)
      let signedAt = bought.transaction.signedDate
      #expect(try await Self.mark(id, harness) == Mark(signedAt: signedAt, isDue: false, isAsked: true))
      #expect(
        try await Self.sentence(id, harness)
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
      _ = try await harness.service.oldProofs.run()
      #expect(try await Self.calls(harness) == 1)
      #expect(try await harness.actions() == [])
    }
  }

  @Test func `many requests with one old proof at a time cost one request to the App Store`() async throws {
    try await withHarness { harness in
      let bought = try Self.refunded(TestApps.lifetime, harness)
      let answers = try await Self.areGranted(Array(repeating: bought, count: 12), harness)
      // Those that did not ask wait for the same answer.
      #expect(answers.allSatisfy { !$0 })
      #expect(try await Self.calls(harness) == 1)
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
      let first = try await Self.areGranted(bought, harness)
      #expect(first.allSatisfy { $0 })
      var later = first
      for _ in 0..<10 where later.contains(true) { later = try await Self.areGranted(bought, harness) }
      #expect(later.allSatisfy { !$0 })
      #expect(try await Self.calls(harness) == 5)
      let api = try #require(harness.service.oldProofs.lookup.apis[TestApps.climbing])
      #expect(!api.isCircuitOpen(.production))
    }
  }

  @Test func `a fresh proof, a known transaction and an ended period are not asked about`() async throws {
    try await withHarness { harness in
      let fresh = try harness.buy(TestApps.lifetime)
      harness.clock.advance(seconds: OldProofs.age)
      _ = try await harness.validate(["signedTransaction": fresh.signedTransaction])
      let (_, known) = try await harness.customer(buys: TestApps.lifetime)
      let ended = try harness.buy(TestApps.monthly)
      harness.clock.advance(days: 100)
      for bought in [fresh, known, ended] {
        #expect(try await harness.validate(["signedTransaction": bought.signedTransaction]).status == 200)
        #expect(
          try await Self.mark(bought.originalTransactionID, harness)
            == Mark(signedAt: nil, isDue: false, isAsked: false))
        #expect(try await Self.sentence(bought.originalTransactionID, harness) == nil)
      }
      #expect(try await Self.calls(harness) == 0)
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
      #expect(try await Self.calls(harness) == 0)
      let answer = try await harness.validate(["signedTransaction": renewed.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
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
      let calls = try await Self.calls(harness)
      _ = try await harness.validate(["signedTransaction": harness.sign(covered)])
      #expect(try await Self.mark("77", harness) == Mark(signedAt: nil, isDue: false, isAsked: false))
      var before = covered
      before.transactionId = "78"
      before.originalTransactionId = "78"
      before.signedDate = harness.clock.now - 5 * 86_400
      before.purchaseDate = before.signedDate
      _ = try await harness.validate(["signedTransaction": harness.sign(before)])
      // The App Store does not know this one.
      #expect(
        try await Self.mark("78", harness) == Mark(signedAt: before.signedDate, isDue: true, isAsked: true))
      #expect(try await Self.calls(harness) == calls + 1)
      #expect(try await harness.row(of: "78").status == "active")
      #expect(try await Self.sentence("78", harness)?.hasSuffix("the App Store did not know it") == true)
      // It may know it later, so it is asked daily for a week.
      for _ in 0..<7 {
        #expect(try await harness.service.oldProofs.run() == 0)
        harness.clock.advance(days: 1)
        #expect(try await harness.service.oldProofs.run() == 1)
      }
      harness.clock.advance(days: 1)
      #expect(try await harness.service.oldProofs.run() == 0)
      #expect(
        try await Self.mark("78", harness) == Mark(signedAt: before.signedDate, isDue: false, isAsked: true))
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
      let bought = try Self.refunded(TestApps.lifetime, harness)
      // The App Store does not know the copy, and signs the refund on the original transaction.
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      let answer = try await harness.validate(["signedTransaction": harness.sign(copy)])
      #expect(answer.status == 200)
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      let id = bought.originalTransactionID
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(
        try await Self.mark(id, harness)
          == Mark(signedAt: copy.signedDate, isDue: false, isAsked: true))
      #expect(try await Self.calls(harness) == 2)
    }
  }

  @Test func `the original transaction is asked about although the App Store knows its restored copy`()
    async throws
  {
    try await withHarness(environment: Self.keyless) { harness in
      let bought = try Self.refunded(TestApps.lifetime, harness)
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
      let (oldProofs, _) = try Self.oldProofs(harness) { number in
        .body(#"{"signedTransactionInfo": "\#(signed[(number - 1) % 2])"}"#)
      }
      #expect(try await oldProofs.run() == 1)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  // MARK: Job

  @Test func `without an answer in time the proof counts, and the App Store is asked until it answers`()
    async throws
  {
    try await withHarness { harness in
      harness.store.add(.unauthorized)
      let bought = try Self.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      let signedAt = bought.transaction.signedDate
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await Self.mark(id, harness) == Mark(signedAt: signedAt, isDue: true, isAsked: false))
      let known = "known only by a proof of \(signedAt.rfc3339); the App Store will be asked"
      #expect(try await Self.sentence(id, harness)?.hasPrefix(known) == true)

      harness.store.clearServerFaults()
      // Another server, or this one after a restart.
      let other = try await harness.service(configuration: TestApps.json)
      #expect(try await other.oldProofs.run() == 1)
      await other.close()
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await Self.mark(id, harness) == Mark(signedAt: signedAt, isDue: false, isAsked: true))
      #expect(try await harness.service.oldProofs.run() == 0)
    }
  }

  @Test func `a purchase about which the job has no answer is asked about again after ten minutes`()
    async throws
  {
    try await withHarness(environment: Self.keyless) { harness in
      let bought = try Self.refunded(TestApps.annual, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      let (refused, _) = try Self.oldProofs(harness) { _ in .unauthorized }
      await #expect(throws: AppStoreServerError.self) { try await refused.run() }
      #expect(try await refused.run() == 0)
      harness.clock.advance(seconds: 601)
      await #expect(throws: AppStoreServerError.self) { try await refused.run() }
      #expect(try await Self.mark(id, harness).isDue)
      // An attempt does not hide it from doctor.
      harness.clock.advance(seconds: 300)
      let waiting = try await harness.pool.query(OldProofRows.waiting(before: harness.clock.now - 900))
      #expect(waiting.count == 1)
    }
  }

  @Test func `while the circuit of the App Store is open, the job leaves purchases due at once`() async throws
  {
    try await withHarness(environment: Self.keyless) { harness in
      let bought = try Self.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      // Its clock stands still, so the circuit stays open.
      let start = ContinuousClock.now
      var clock = StoreClock.system
      clock.instant = { start }
      let (refused, api) = try Self.oldProofs(harness, clock: clock) { _ in .body("<html>") }
      for number in 1...5 {
        await #expect(throws: AppStoreServerError.self) {
          try await api.transactionInfo("\(number)", in: .production)
        }
      }
      #expect(api.isCircuitOpen(.production))
      for _ in 0..<2 { await #expect(throws: AppStoreServerError.self) { try await refused.run() } }
      #expect(
        try await Self.mark(id, harness)
          == Mark(signedAt: bought.transaction.signedDate, isDue: true, isAsked: false))
      // Another server, whose circuit is closed, does not wait for the end of a lease.
      let key = harness.store.identity.connectKey
      let keyed = try await harness.service(
        configuration: TestApps.json,
        settings: [
          "APP_STORE_KEY": try harness.storeKeyFile(), "APP_STORE_KEY_ID": key.keyID,
          "APP_STORE_ISSUER_ID": key.issuerID,
        ])
      #expect(try await keyed.oldProofs.run() == 1)
      await keyed.close()
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test func `an app whose key is wrong does not stop the questions about others`() async throws {
    try await withHarness(environment: Self.keyless) { harness in
      let first = try harness.buy(TestApps.lifetime)
      let second = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      harness.clock.advance(days: 2)
      for bought in [first, second] {
        #expect(try await harness.validate(["signedTransaction": bought.signedTransaction]).status == 200)
        #expect(try await Self.mark(bought.originalTransactionID, harness).isDue)
      }
      let key = harness.store.identity.connectKey
      let wrong = AppStoreServerAPI(
        transport: CountedStore { _ in .unauthorized },
        credentials: try AppStoreCredentials(
          privateKey: key.pem, keyID: key.keyID, issuerID: key.issuerID),
        bundleID: TestApps.climbing)
      let keyed = try await harness.service(
        configuration: TestApps.json,
        settings: [
          "APP_STORE_KEY": try harness.storeKeyFile(), "APP_STORE_KEY_ID": key.keyID,
          "APP_STORE_ISSUER_ID": key.issuerID,
        ])
      let own = keyed.oldProofs
      let mixed = OldProofs(
        lookup: StoreLookup(
          apis: own.lookup.apis.merging([TestApps.climbing: wrong]) { _, new in new },
          verifier: own.lookup.verifier, logger: own.logger),
        ledger: own.ledger, pool: own.pool, catalog: own.catalog, clock: own.clock, logger: own.logger)
      await #expect(throws: AppStoreServerError.self) { try await mixed.run() }
      #expect(try await Self.mark(first.originalTransactionID, harness).isDue)
      #expect(try await Self.mark(second.originalTransactionID, harness).isAsked)
      await keyed.close()
    }
  }

  @Test func `a sync of many old purchases asks about some at once, and about the others soon after`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      var bought: [SignedOutcome] = []
      for _ in 0..<7 { bought.append(try harness.buy(TestApps.annual)) }
      harness.clock.advance(days: 31)
      for purchase in bought {
        _ = try harness.store.perform(.refundLatest, on: purchase.originalTransactionID)
      }
      harness.clock.advance(days: 200)
      let answer = try await harness.sync(
        bought.map(\.signedTransaction), user: user, token: try await harness.token(for: user))
      #expect(answer.status == 200)
      #expect(try await Self.calls(harness) == Double(OldProofs.maximumAtOnce))
      #expect(answer.bool("isPremium") == true)
      #expect(try await harness.service.oldProofs.run() == 7 - OldProofs.maximumAtOnce)
      #expect(try await Self.calls(harness) == 7)
      #expect(try await harness.isPremium(user) == false)
    }
  }

  @Test func `a reconciliation and a refresh by support ask, too`() async throws {
    try await withHarness(environment: Self.keyless) { harness in
      let first = try Self.refunded(TestApps.lifetime, harness)
      let second = try Self.refunded(TestApps.lifetime, harness)
      for bought in [first, second] {
        _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      }
      let key = harness.store.identity.connectKey
      let keyed = try await harness.service(
        configuration: TestApps.json,
        settings: [
          "APP_STORE_KEY": try harness.storeKeyFile(), "APP_STORE_KEY_ID": key.keyID,
          "APP_STORE_ISSUER_ID": key.issuerID,
        ])
      _ = try await keyed.support.refresh(first.originalTransactionID, by: #require(Harness.ada))
      #expect(try await harness.row(of: first.originalTransactionID).status == "cancelled")
      #expect(try await Self.mark(first.originalTransactionID, harness).isAsked)
      _ = await keyed.reconcile(since: harness.clock.now - 180 * 86_400, bundleID: TestApps.climbing)
      await keyed.close()
      #expect(try await harness.row(of: second.originalTransactionID).status == "cancelled")
    }
  }

  // MARK: Without a key

  @Test func `without a key the proof counts, and support's page and doctor say so`() async throws {
    try await withHarness(environment: Self.keyless) { harness in
      let bought = try Self.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await harness.service.oldProofs.run() == 0)
      let sentence = try #require(try await Self.sentence(id, harness))
      #expect(sentence.hasPrefix("known only by a proof of \(bought.transaction.signedDate.rfc3339);"))
      #expect(sentence.hasSuffix("was not asked whether it was refunded since, because the app has no key"))
      harness.clock.advance(seconds: 901)
      var lines: [String] = []
      _ = await Doctor(environment: harness.environment, clock: harness.clock.service).check {
        lines.append($0.line)
      }
      let line = try #require(lines.first { $0.contains("old proofs of \(TestApps.climbing)") })
      #expect(line.hasPrefix("warn"))
      #expect(line.contains("1 purchases are known only by a client's old proof"))
      #expect(lines.contains { $0.contains("old proofs of purchases cannot be checked for a refund") })
    }
  }
}
