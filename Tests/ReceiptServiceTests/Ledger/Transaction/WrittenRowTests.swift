import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService

/// Compares the customer records that a commit returns with a later read from the database.
@Suite struct WrittenRowTests {
  @Test(arguments: [.user, .device] as [CustomerKind], [0, 8, 16] as [UInt64])
  func `the response to a validation equals a later read of the customer`(
    kind: CustomerKind, seeds: UInt64
  ) async throws {
    try await withHarness(configuration: Self.configuration(for: kind)) { harness in
      let app = try #require(harness.service.notifications.catalog.apps.first)
      var (compared, ofSeveral, ofSharers) = (0, 0, 0)
      for seed in seeds..<(seeds + 8) {
        let life = RandomLife(seed: seed, from: harness.clock.now)
        var random = SeededGenerator(seed: seed)
        let customers: [Customer] = (0..<3).map { number in
          switch kind {
          case .user: .user(UUID())
          case .device: .device("device-\(seed)-\(number)")
          }
        }
        var facts = life.facts.shuffled(using: &random)[...]
        while !facts.isEmpty {
          let entries = try facts.prefix(Int.random(in: 1...8, using: &random)).map { fact in
            try harness.entry(of: fact, in: app, claimant: customers.randomElement(using: &random))
          }
          facts = facts.dropFirst(entries.count)
          let receipts = try await Self.commit(entries, in: harness)
          for (entry, receipt) in zip(entries, receipts) {
            guard let customerRecords = receipt.customerRecords, let customer = entry.asks(about: receipt)
            else { continue }
            let read = try await harness.pool.customerRecords(
              users: [customer.userID].compactMap(\.self), devices: [customer.deviceID].compactMap(\.self))
            #expect(
              customerRecords.sorted
                == read.customerRecords(of: customer, in: app, at: entry.instant).sorted, "LIFE=\(seed)")
            compared += 1
            if customerRecords.subscriptions.count > 1 { ofSeveral += 1 }
            if receipt.subscription?.owner?.customer != customer { ofSharers += 1 }
          }
          harness.clock.advance(days: Double.random(in: 0..<40, using: &random))
        }
      }
      #expect(compared > 0)
      #expect(ofSeveral > 0)
      #expect(ofSharers > 0 || kind == .user)
    }
  }

  private static func commit(_ entries: [LedgerEntry], in harness: Harness) async throws -> [LedgerReceipt] {
    let notifications = harness.service.notifications
    let batch = LedgerTransaction(
      entries: entries, headerIDs: JWSHeaderIDs(), catalog: notifications.catalog,
      effects: notifications.ledger.effects,
      clock: harness.clock.service,
      logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: notifications.metrics)
    return try await harness.pool.withTransaction { connection in try await batch.run(on: connection) }
  }

  private static func configuration(for kind: CustomerKind) -> String {
    let ofUsers = DeliveredLivesTests.configuration
    guard kind == .device else { return ofUsers }
    return
      ofUsers
      .replacing(#""customer": "user""#, with: #""customer": "device", "devicesPerPurchase": 2"#)
      .replacing(#""auth": \#(TestApps.secretAuth), "writeTo": ["profiles"]"#, with: #""writeTo": []"#)
  }
}

extension Harness {
  /// The entry of a client that sends a fact of a life.
  fileprivate func entry(of fact: LifeFact, in app: App, claimant: Customer?) throws -> LedgerEntry {
    var entry = LedgerEntry(
      app: app, originalTransactionID: fact.originalTransactionID,
      because: .proof(claimant.map { Claim(by: $0) }), instant: clock.now)
    let signer = store.identity.authority.signer
    let verifier = service.notifications.verifier
    switch fact {
    case .transaction(let info):
      entry.transactions = [try TransactionRecord(verifier.transaction(signer.sign(info)))]
    case .renewal(let info):
      entry.renewals = [try RenewalRecord(verifier.renewalInfo(signer.sign(info)))]
    }
    return entry
  }
}

extension CustomerRecords {
  /// The records with their subscriptions in the order of original ids.
  fileprivate var sorted: CustomerRecords {
    var sorted = self
    sorted.subscriptions.sort { $0.current.originalTransactionID < $1.current.originalTransactionID }
    return sorted
  }
}
