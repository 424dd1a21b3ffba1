import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Text
import Work

@testable import Ledger
@testable import Proofs
@testable import ReceiptService
@testable import Support

/// The job that asks about purchases with an old proof until the App Store has answered, and what is said of them
/// meanwhile.
@Suite struct OldProofJobTests {
  @Test func `without an answer in time the proof counts, and the App Store is asked until it answers`()
    async throws
  {
    try await withHarness { harness in
      harness.store.add(.unauthorized)
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      let signedAt = bought.transaction.signedDate
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(
        try await OldProof.mark(id, harness) == OldProof.Mark(signedAt: signedAt, isDue: true, isAsked: false)
      )
      let known = "known only by a proof of \(signedAt.rfc3339); the App Store will be asked"
      #expect(try await OldProof.sentence(id, harness)?.hasPrefix(known) == true)

      harness.store.clearServerFaults()
      // Another server, or this one after a restart.
      let other = try await harness.service(configuration: TestApps.json)
      #expect(try await other.proofs.oldProofs.run() == 1)
      await other.close()
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(
        try await OldProof.mark(id, harness) == OldProof.Mark(signedAt: signedAt, isDue: false, isAsked: true)
      )
      #expect(try await harness.service.proofs.oldProofs.run() == 0)
    }
  }

  @Test func `a purchase about which the job has no answer is asked about again after ten minutes`()
    async throws
  {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.annual, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      let (refused, _) = try OldProof.oldProofs(harness) { _ in .body("{}") }
      #expect(try await refused.run() == 1)
      #expect(try await refused.run() == 0)
      harness.clock.advance(seconds: 601)
      #expect(try await refused.run() == 1)
      #expect(try await OldProof.mark(id, harness).isDue)
      // An attempt does not hide it from doctor.
      harness.clock.advance(seconds: 300)
      let waiting = try await harness.pool.query(OldProofRows.waiting(before: harness.clock.now - 900))
      #expect(waiting.count == 1)
    }
  }

  @Test func `in an outage the job leaves purchases due at once`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      let (refused, _) = try OldProof.oldProofs(harness) { _ in .unauthorized }
      for _ in 0..<2 { await #expect(throws: AppStoreServerError.self) { try await refused.run() } }
      #expect(
        try await OldProof.mark(id, harness)
          == OldProof.Mark(signedAt: bought.transaction.signedDate, isDue: true, isAsked: false))
      var now = bought.transaction
      now.revocationDate = now.purchaseDate + 31 * 86_400
      now.signedDate = harness.clock.now
      let signed = try harness.sign(now)
      let (answering, _) = try OldProof.oldProofs(harness) { _ in
        .body(#"{"signedTransactionInfo": "\#(signed)"}"#)
      }
      #expect(try await answering.run() == 1)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test func `an error that does not say that the transaction is unknown settles nothing`() async throws {
    try await withHarness { harness in
      harness.store.add(.error(.generalBadRequest))
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      let open = OldProof.Mark(signedAt: bought.transaction.signedDate, isDue: true, isAsked: false)
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(try await OldProof.mark(id, harness) == open)
      #expect(try await harness.service.proofs.oldProofs.run() == 1)
      #expect(try await OldProof.mark(id, harness) == open)
      harness.store.clearServerFaults()
      harness.clock.advance(seconds: 601)
      #expect(try await harness.service.proofs.oldProofs.run() == 1)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test(arguments: [TestApps.lifetime, TestApps.annual])
  func `an answer about another transaction settles nothing`(productID: String) async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(productID, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      let other = try harness.sign(harness.buy(productID).transaction)
      let (mistaken, _) = try OldProof.oldProofs(harness) { _ in
        .body(#"{"signedTransactionInfo": "\#(other)"}"#)
      }
      #expect(try await mistaken.run() == 1)
      #expect(
        try await OldProof.mark(id, harness)
          == OldProof.Mark(signedAt: bought.transaction.signedDate, isDue: true, isAsked: false))
      #expect(try await harness.count("subscriptions") == 1)
    }
  }

  @Test func `a replaced transaction without its successor settles nothing`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.annual, harness)
      var replaced = bought.transaction
      replaced.isUpgraded = true
      replaced.signedDate = harness.clock.now
      let signed = try harness.sign(replaced)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": signed])
      // Once the App Store does not know the customer's subscriptions, but knows the transaction.
      let (forgetful, _) = try OldProof.oldProofs(harness) { number in
        number == 1 ? .unknown : .body(#"{"signedTransactionInfo": "\#(signed)"}"#)
      }
      #expect(try await forgetful.run() == 1)
      #expect(try await OldProof.mark(id, harness).isDue)
    }
  }

  @Test func `a restored copy that the App Store knows settles nothing while the original is unknown`()
    async throws
  {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      copy.signedDate = harness.clock.now
      let signed = try harness.sign(copy)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": signed])
      let (forgetful, _) = try OldProof.oldProofs(harness) { number in
        number == 1 ? .unknown : .body(#"{"signedTransactionInfo": "\#(signed)"}"#)
      }
      #expect(try await forgetful.run() == 1)
      #expect(try await OldProof.mark(id, harness).isDue)
    }
  }

  @Test func `an answer that is older than the proof settles nothing`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      var shown = bought.transaction
      shown.signedDate += 86_400
      _ = try await harness.validate(["signedTransaction": harness.sign(shown)])
      let (late, _) = try OldProof.oldProofs(harness) { _ in
        .body(#"{"signedTransactionInfo": "\#(bought.signedTransaction)"}"#)
      }
      #expect(try await late.run() == 1)
      #expect(
        try await OldProof.mark(bought.originalTransactionID, harness)
          == OldProof.Mark(signedAt: shown.signedDate, isDue: true, isAsked: false))
    }
  }

  @Test
  func `after an app transfer an answer about the transaction ends the access under its first original id`()
    async throws
  {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      var refunded = bought.transaction
      refunded.originalTransactionId = "9\(id)"
      refunded.revocationDate = harness.clock.now - 3_600
      refunded.signedDate = harness.clock.now
      let signed = try harness.sign(refunded)
      let (transferred, _) = try OldProof.oldProofs(harness) { _ in
        .body(#"{"signedTransactionInfo": "\#(signed)"}"#)
      }
      #expect(try await transferred.run() == 1)
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await !OldProof.mark(id, harness).isDue)
    }
  }

  @Test func `an answer that the ledger refuses settles nothing`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      var other = bought.transaction
      other.environment = .sandbox
      other.signedDate = harness.clock.now
      let signed = try harness.sign(other)
      let (wrong, _) = try OldProof.oldProofs(harness) { _ in
        .body(#"{"signedTransactionInfo": "\#(signed)"}"#)
      }
      #expect(try await wrong.run() == 1)
      #expect(
        try await OldProof.mark(id, harness)
          == OldProof.Mark(signedAt: bought.transaction.signedDate, isDue: true, isAsked: false))
    }
  }

  @Test func `an answer does not settle another proof of the purchase that came meanwhile`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      let now = harness.clock.now
      let lease = WorkLease(at: now, for: OldProofRows.lease)
      func claimed() async throws -> OldProofRows.Due {
        let rows = try await harness.pool.query(OldProofRows.claim(id, lease))
        return try OldProofRows.Due(#require(rows.first))
      }
      let due = try await claimed()
      #expect(due.asked == [id])
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      copy.purchaseDate += 86_400
      copy.signedDate += 86_400
      _ = try await harness.validate(["signedTransaction": harness.sign(copy)])
      let record = try TransactionRecord(
        harness.service.proofs.oldProofs.lookup.verifier.transaction(bought.signedTransaction))
      let told = [(originalTransactionID: id, fact: record.fact)]
      for late in [
        OldProofRows.markAsked(due, at: now), OldProofRows.markUnknown(due, at: now),
        OldProofRows.table.giveBack(id, of: lease), OldProofRows.markTold(told, at: now),
      ] {
        #expect(try await harness.pool.query(late).affected == 0)
      }
      let other = try await claimed()
      #expect(other.asked == [id, copy.transactionId])
      #expect(other.signedAt == copy.signedDate)
      #expect(try await harness.pool.query(OldProofRows.markAsked(other, at: now)).affected == 1)
    }
  }

  @Test func `a request with another proof of the purchase does not wait for the question about the first`()
    async throws
  {
    let questions = OpenQuestions()
    let proofs = [1.0, 2.0].map {
      OpenQuestions.Proof(originalTransactionID: "1", signedAt: Date(timeIntervalSince1970: $0))
    }
    let (began, first) = AsyncStream<Void>.makeStream()
    let (end, ending) = AsyncStream<Void>.makeStream()
    async let answer = questions.isAnswered(about: proofs[0], within: .seconds(60)) {
      first.finish()
      for await _ in end {}
      return false
    }
    for await _ in began {}
    let isSecondAnswered = await questions.isAnswered(about: proofs[1], within: .seconds(60)) { true }
    #expect(isSecondAnswered)
    ending.finish()
    let isFirstAnswered = await answer
    #expect(!isFirstAnswered)
  }

  @Test func `a question does not wait for a locked row for longer than 100 ms`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      let now = harness.clock.now
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          "SELECT FROM subscriptions WHERE original_transaction_id = \(id) FOR UPDATE")
        let error = await #expect(throws: PostgresError.self) {
          try await harness.pool.query(
            OldProofRows.claim(id, WorkLease(at: now, for: 600)), lockTimeout: LockTimeout.shared)
        }
        #expect(error?.isLockNotGranted == true)
      }
    }
  }

  @Test func `while the circuit of the App Store is open, the job leaves purchases due at once`() async throws
  {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction])
      // Its clock stands still, so the circuit stays open.
      let start = ContinuousClock.now
      var clock = StoreClock.system
      clock.instant = { start }
      let (refused, api) = try OldProof.oldProofs(harness, clock: clock) { _ in .body("<html>") }
      for number in 1...5 {
        await #expect(throws: AppStoreServerError.self) {
          try await api.transactionInfo("\(number)", in: .production)
        }
      }
      #expect(api.isCircuitOpen(.production))
      for _ in 0..<2 { await #expect(throws: AppStoreServerError.self) { try await refused.run() } }
      #expect(
        try await OldProof.mark(id, harness)
          == OldProof.Mark(signedAt: bought.transaction.signedDate, isDue: true, isAsked: false))
      // Another server, whose circuit is closed, does not wait for the end of a lease.
      let key = harness.store.identity.connectKey
      let keyed = try await harness.service(
        configuration: TestApps.json,
        settings: [
          "APP_STORE_KEY": try harness.storeKeyFile(), "APP_STORE_KEY_ID": key.keyID,
          "APP_STORE_ISSUER_ID": key.issuerID,
        ])
      #expect(try await keyed.proofs.oldProofs.run() == 1)
      await keyed.close()
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test func `an app whose key is wrong does not stop the questions about others`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let first = try harness.buy(TestApps.lifetime)
      let second = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      harness.clock.advance(days: 2)
      for bought in [first, second] {
        #expect(try await harness.validate(["signedTransaction": bought.signedTransaction]).status == 200)
        #expect(try await OldProof.mark(bought.originalTransactionID, harness).isDue)
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
      let own = keyed.proofs.oldProofs
      let mixed = OldProofs(
        lookup: StoreLookup(
          apis: own.lookup.apis.merging([TestApps.climbing: wrong]) { _, new in new },
          verifier: own.lookup.verifier, logger: own.logger),
        ledger: own.ledger, catalog: own.catalog, work: own.work)
      await #expect(throws: AppStoreServerError.self) { try await mixed.run() }
      #expect(try await OldProof.mark(first.originalTransactionID, harness).isDue)
      #expect(try await OldProof.mark(second.originalTransactionID, harness).isAsked)
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
      #expect(try await OldProof.calls(harness) == Double(OldProofs.maximumAtOnce))
      #expect(answer.bool("isPremium") == true)
      #expect(try await harness.service.proofs.oldProofs.run() == 7 - OldProofs.maximumAtOnce)
      #expect(try await OldProof.calls(harness) == 7)
      #expect(try await harness.isPremium(user) == false)
    }
  }

  @Test func `a reconciliation and a refresh by support ask, too`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let first = try OldProof.refunded(TestApps.lifetime, harness)
      let second = try OldProof.refunded(TestApps.lifetime, harness)
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
      #expect(try await OldProof.mark(first.originalTransactionID, harness).isAsked)
      _ = await keyed.reconcile(since: harness.clock.now - 180 * 86_400, bundleID: TestApps.climbing)
      await keyed.close()
      #expect(try await harness.row(of: second.originalTransactionID).status == "cancelled")
    }
  }

  // MARK: Without a key

  @Test func `without a key the proof counts, and support's page and doctor say so`() async throws {
    try await withHarness(environment: OldProof.keyless) { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      let id = bought.originalTransactionID
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await harness.service.proofs.oldProofs.run() == 0)
      let sentence = try #require(try await OldProof.sentence(id, harness))
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
