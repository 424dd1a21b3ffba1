import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

extension Doctor {
  /// How long the App Store may take to answer, in seconds, before a purchase is reported.
  private static let answerTime = 900.0

  /// Reports purchases that give access by an old proof, and about which the App Store has not answered: a refund from before
  /// receiptd may be unknown.
  func oldProofs(
    _ pool: PostgresPool, _ settings: Settings, _ catalog: AppCatalog
  ) async throws -> [CheckResult] {
    let withKey = catalog.appsWithStoreKey(settings)
    return try await pool.query(OldProofRows.waiting(before: clock.now() - Self.answerTime)).map { row in
      let bundleID = try row.decode("bundle_id", as: String.self)
      let count = try row.decode("purchases", as: Int.self)
      let purchases = "\(count) purchases are known only by a client's old proof"
      guard withKey.contains(bundleID) else {
        return .warn(
          "old proofs of \(bundleID)",
          "\(purchases). Without an App Store key receiptd cannot ask whether they were refunded since",
          "set APP_STORE_KEY, APP_STORE_KEY_ID and APP_STORE_ISSUER_ID, or the app's appStore")
      }
      return .warn(
        "old proofs of \(bundleID)", "\(purchases), and the App Store has not answered for 15 minutes",
        "see the log for 'old proofs'")
    }
  }
}
