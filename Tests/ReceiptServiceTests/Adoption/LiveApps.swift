import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Adoption
@testable import ReceiptService

/// The tables of the four apps on one database that had users before receiptd, with the shipped configuration.
struct LiveApps: OldBuilds {
  let harness: Harness
  var pool: PostgresPool { harness.pool }
  /// Nine users; SwiftClimb has a profile of each.
  let users = (1...9).map(LiveTables.user)

  /// Runs a test on the migrated tables without subscribers of SwiftClimb and ScreenTime Rewards, with receiptd.
  /// - Parameter clientWrites: the configured modes by bundle id.
  /// - Parameter configuration: the apps in place of the shipped ones.
  static func with(
    _ clientWrites: [String: String] = [:], environment: [String: String] = [:], configuration: String? = nil,
    _ body: (LiveApps) async throws -> Void
  ) async throws {
    try await with(clientWrites, environment: environment, configuration: configuration) { pool in
      try await LiveTables.run(
        """
        UPDATE profiles
        SET premium_expires_at = NULL, premium_product_id = NULL, premium_original_transaction_id = NULL;
        DELETE FROM subscriptions;
        """, on: pool)
      try await Migrator(pool: pool, folder: Harness.migrations).apply()
    } body: {
      try await body($0)
    }
  }

  /// Runs a test on the tables with their rows.
  /// - Parameter clientWrites: the configured modes by bundle id.
  /// - Parameter prepare: what happens before receiptd starts. It migrates the database.
  static func with(
    _ clientWrites: [String: String], environment: [String: String] = [:], configuration: String? = nil,
    prepare: (PostgresPool) async throws -> Void, body: (LiveApps) async throws -> Void
  ) async throws {
    try await LiveTables.with { database, pool in
      try await prepare(pool)
      let harness = try await Harness(
        databaseURL: testRole.map(database.uri(role:)) ?? database.uri,
        configuration: configuration ?? Self.configuration(clientWrites),
        environment: ["SWIFTCLIMB_JWT_SECRET": Harness.secret, "THAQALAYN_JWT_SECRET": Harness.secret]
          .merging(environment) { $1 },
        ownerURL: testRole == nil ? nil : database.uri, databaseTimeout: .seconds(60))
      do {
        try await body(LiveApps(harness: harness))
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
    }
  }

  /// The shipped configuration with the key `clientWrites` of these apps, and without that of SwiftClimb.
  static func configuration(_ clientWrites: [String: String]) throws -> String {
    var text = try ScreenTime.configuration().replacing(#""clientWrites": "observe","#, with: "")
    // The other app with the key.
    if clientWrites[ScreenTime.bundleID] != nil {
      text = text.replacing(#""clientWrites": "accept","#, with: "")
    }
    for (bundleID, mode) in clientWrites {
      text = text.replacing(
        #""bundleID": "\#(bundleID)","#, with: #""bundleID": "\#(bundleID)", "clientWrites": "\#(mode)","#)
    }
    return text
  }

  /// The user with this number, from 1.
  subscript(number: Int) -> UUID { users[number - 1] }

  // MARK: The database

  func profile(_ user: UUID) async throws -> ProfileRow {
    try #require(try await harness.profileRow(of: user))
  }

  func handle(_ user: UUID) async throws -> String? {
    try await harness.pool.query("SELECT handle FROM profiles WHERE id = \(user)")[0].decode(
      "handle", as: String?.self)
  }

  /// Writes a legacy profile, as the app's old clients did before receiptd.
  func setProfile(
    _ user: UUID, _ transactionID: String?, product: String? = SwiftClimb.monthly, until expiry: Date?
  ) async throws {
    _ = try await harness.pool.query(
      """
      UPDATE profiles SET premium_original_transaction_id = \(transactionID), premium_product_id = \(product),
        premium_expires_at = \(expiry) WHERE id = \(user)
      """)
  }

  func clientWrites() async throws -> [ClientWrite] {
    try await harness.pool.query(
      """
      SELECT table_name, user_id, original_transaction_id, is_premium, mode, writes, outcome FROM client_writes
      ORDER BY id
      """
    ).map {
      ClientWrite(
        table: try $0.decode("table_name"), user: try $0.decode("user_id"),
        transactionID: try $0.decode("original_transaction_id"), isPremium: try $0.decode("is_premium"),
        mode: try $0.decode("mode"), writes: try $0.decode("writes"), outcome: try $0.decode("outcome"))
    }
  }

  /// A row of `client_writes`.
  struct ClientWrite: Equatable {
    var table: String
    var user: UUID
    var transactionID: String
    var isPremium: Bool?
    var mode: String
    var writes: Int
    var outcome: String?
  }

  /// Verifies the claims that are due some seconds after they were written.
  func verifyClaims(afterSeconds seconds: Double = 10) async throws {
    harness.clock.advance(seconds: seconds)
    try await harness.service.adoption.verification.run()
  }

  /// A purchase in the store of which no notification and no client tells.
  func buy(
    _ productID: String = SwiftClimb.monthly, bundleID: String = SwiftClimb.bundleID, token: UUID? = nil
  ) throws -> SignedOutcome {
    try harness.store.buy(
      PurchaseRequest(bundleID: bundleID, productID: productID, appAccountToken: token))
  }
}

extension LiveApps {
  /// Runs `receiptd adopt` for one app.
  func adopt(
    _ bundleID: String = SwiftClimb.bundleID, isDryRun: Bool = false, csv: String? = nil,
    clientAwardDays: Int? = nil
  ) async throws -> AdoptionReport {
    try #require(
      try await harness.service.adoption.adopt(
        bundleID: bundleID, isDryRun: isDryRun, csv: csv, clientAwardDays: clientAwardDays
      ).first)
  }

  /// A legacy profile of a purchase that receiptd has never seen.
  func legacyCustomer(_ user: UUID, _ product: String = SwiftClimb.monthly) async throws -> SignedOutcome {
    let bought = try buy(product)
    try await setProfile(
      user, bought.originalTransactionID, product: product, until: bought.transaction.expiresDate)
    return bought
  }
}
