import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

/// A user's access by one purchase, on which the row, the profile and the response must agree.
struct Access: Equatable, Sendable {
  var status: String
  var storeStatus: String
  var product: String
  /// The end of the paid period or the billing grace; `nil` for none.
  var until: Date?
  var renews: Bool

  static func active(_ product: String = TestApps.monthly, until: Date?, renews: Bool = true) -> Access {
    Access(status: "active", storeStatus: "active", product: product, until: until, renews: renews)
  }

  static func grace(until: Date?) -> Access {
    Access(
      status: "grace", storeStatus: "billingGrace", product: TestApps.monthly, until: until, renews: true)
  }

  static func expired(_ product: String = TestApps.monthly, at end: Date?) -> Access {
    Access(status: "expired", storeStatus: "expired", product: product, until: end, renews: false)
  }

  static func billingRetry(since end: Date?) -> Access {
    Access(
      status: "expired", storeStatus: "billingRetry", product: TestApps.monthly, until: end, renews: true)
  }

  static func cancelled(_ product: String = TestApps.monthly, until: Date?) -> Access {
    Access(status: "cancelled", storeStatus: "revoked", product: product, until: until, renews: false)
  }
}

extension Harness {
  /// Reads the row, the profile and the response, and checks that they agree with each other and with the store's
  /// record.
  func access(of user: UUID, by purchase: SignedOutcome) async throws -> Access {
    let id = purchase.originalTransactionID
    let row = try await row(of: id)
    let profile = try #require(try await profileRow(of: user))
    let answer = try await premium(user)
    let end = [row.expiry, row.graceExpiry].compactMap(\.self).max()
    let isOpen = ["active", "grace"].contains(row.status)

    #expect(row.userID == user)
    #expect(answer.bool("isPremium") == isOpen)
    #expect(answer.bool("entitlements.isAccessGranted") == isOpen)
    #expect(answer.string("entitlements.status") == row.status)
    #expect(answer.string("entitlements.tier") == (isOpen ? "premium" : nil))
    #expect(answer.bool("entitlements.features.insights") == isOpen)
    #expect(answer.bool("isInGracePeriod") == (row.status == "grace"))
    #expect(answer.date("premiumExpiresAt") == profile.expiresAt)
    #expect(answer.string("premiumProductID") == profile.product)
    #expect(answer.string("premiumOriginalTransactionID") == profile.originalTransactionID)
    if row.status == "cancelled" {
      #expect(profile == ProfileRow())
    } else {
      #expect(profile == ProfileRow(expiresAt: end, product: row.productID, originalTransactionID: id))
    }
    let truth = try #require(store.truth(of: id))
    #expect(truth.grantsAccess == isOpen)
    #expect(truth.transactionID == row.transactionID)
    return Access(
      status: row.status, storeStatus: row.storeStatus, product: row.productID, until: end,
      renews: answer.bool("willRenew") == true)
  }

  /// Type, subtype and outcome of the latest notification.
  func latestNotification() async throws -> String {
    let row = try await pool.query(
      "SELECT concat_ws(' ', type, subtype, outcome) FROM notifications ORDER BY signed_at DESC LIMIT 1")
    return try row[0].decode("concat_ws")
  }

  /// Makes the annual subscription a higher level than the monthly one.
  func sellAnnualAsHigherLevel() throws {
    var app = try #require(store.app(TestApps.climbing))
    app.products[TestApps.annual]?.rank = 2
    store.put(app)
  }

  /// Moves the clock to the end of a purchase's paid period.
  func waitForEnd(of purchase: SignedOutcome) throws {
    clock.set(try #require(purchase.transaction.expiresDate))
  }
}
