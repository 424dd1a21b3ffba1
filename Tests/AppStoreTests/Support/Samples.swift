import Foundation
import Testing

@testable import AppStore

/// Sample payloads.
enum Samples {
  static let bundleID = "com.example.app"
  static let appAppleID: Int64 = 1_500_000_001
  static let identity = AppIdentity(
    bundleID: bundleID, appAppleID: appAppleID, environments: [.production, .sandbox])

  static var transaction: TransactionInfo {
    var transaction = TransactionInfo(
      transactionId: "2000000000000001", originalTransactionId: "1000000000000001", bundleId: bundleID,
      productId: "com.example.app.monthly", purchaseDate: TestAuthority.Instants.signed - 60,
      signedDate: TestAuthority.Instants.signed, environment: .production)
    transaction.type = .autoRenewableSubscription
    transaction.inAppOwnershipType = .purchased
    transaction.expiresDate = TestAuthority.Instants.signed + 30 * 86_400
    return transaction
  }

  static var renewalInfo: RenewalInfo {
    RenewalInfo(
      originalTransactionId: "1000000000000001", autoRenewStatus: .on,
      signedDate: TestAuthority.Instants.signed, environment: .production)
  }

  static var appTransaction: AppTransaction {
    var app = AppTransaction(
      bundleId: bundleID, receiptType: .production, receiptCreationDate: TestAuthority.Instants.signed)
    app.appAppleId = appAppleID
    return app
  }

  static func notification(
    transaction: TransactionInfo? = transaction, renewalInfo: RenewalInfo? = renewalInfo,
    by authority: TestAuthority = .shared, innerBy innerAuthority: TestAuthority = .shared
  ) throws -> NotificationPayload {
    var data = NotificationData(environment: .production, bundleId: bundleID)
    data.appAppleId = appAppleID
    data.signedTransactionInfo = try transaction.map { try innerAuthority.sign($0) }
    data.signedRenewalInfo = try renewalInfo.map { try innerAuthority.sign($0) }
    var notification = NotificationPayload(
      notificationType: .didRenew, notificationUUID: "002e14d5-51f5-4503-b5a8-c3a1af68eb20",
      signedDate: TestAuthority.Instants.signed)
    notification.version = "2.0"
    notification.data = data
    return notification
  }
}

/// A file of the fixtures, or of the project's `config` folder.
enum Files {
  static func fixture(_ name: String) throws -> [UInt8] {
    let url = try #require(Bundle.module.url(forResource: "Fixtures/\(name)", withExtension: nil))
    return Array(try Data(contentsOf: url))
  }

  static func appleRoot() throws -> [UInt8] {
    let project = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
    return Array(try Data(contentsOf: project.appending(path: "config/AppleRootCA-G3.cer")))
  }
}

/// Returns the failure of `body`; records an issue if it succeeds.
func failure<Result>(
  of body: () throws(VerificationFailure) -> Result, sourceLocation: SourceLocation = #_sourceLocation
) -> VerificationFailure? {
  do throws(VerificationFailure) {
    _ = try body()
    Issue.record("accepted", sourceLocation: sourceLocation)
    return nil
  } catch {
    return error
  }
}

/// Random numbers that are the same in every run.
struct SeededGenerator: RandomNumberGenerator {
  var state: UInt64

  // SplitMix64.
  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
