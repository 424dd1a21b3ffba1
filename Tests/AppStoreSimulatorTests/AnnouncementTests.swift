import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct AnnouncementTests {
  @Test func `an external purchase token has one id in CREATED, UNREPORTED and ACTIVE_TOKEN_REMINDER`() throws
  {
    var store = Climb.store(.sandbox)
    let made = try store.externalPurchase(.created, bundleID: Climb.bundleID, at: Climb.start)
    let id = try #require(made.externalPurchaseToken?.externalPurchaseId)
    #expect(id.hasPrefix("SANDBOX"))
    #expect(made.type == .externalPurchaseToken)
    #expect(made.subtype == .created)
    #expect(made.transaction == nil)
    let missed = try store.externalPurchase(.unreported, id: id, bundleID: Climb.bundleID, at: .day(30))
    #expect(missed.subtype == .unreported)
    #expect(missed.externalPurchaseToken == made.externalPurchaseToken)
    let reminder = try store.externalPurchase(.reminder, id: id, bundleID: Climb.bundleID, at: .day(60))
    #expect(reminder.subtype == .activeTokenReminder)
    #expect(throws: StoreRefusal.unknownExternalPurchase("no")) {
      try store.externalPurchase(.unreported, id: "no", bundleID: Climb.bundleID, at: .day(60))
    }
    #expect(store.notifications == [made, missed, reminder])
  }

  @Test func `a rescinded consent names the account's app transaction and changes no purchase`()
    throws
  {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, account: "kid", at: Climb.start)
    let rescinded = try store.rescindConsent(bundleID: Climb.bundleID, accountID: "kid", at: .day(1))
    #expect(rescinded.type == .rescindConsent)
    #expect(rescinded.appTransaction?.appTransactionId == bought.transaction.appTransactionId)
    #expect(store.status(of: bought.originalTransactionID, at: .day(1)) == .active)
  }

  @Test func `the end of a mass extension sends RENEWAL_EXTENSION SUMMARY with the counts`() throws {
    var store = Climb.store()
    var summary = NotificationSummary(environment: .sandbox, bundleId: "")
    summary.succeededCount = 3
    summary.productId = Climb.monthly
    let sent = try store.summarizeExtension(summary, bundleID: Climb.bundleID, at: .day(1))
    #expect(sent.type == .renewalExtension)
    #expect(sent.subtype == .summary)
    #expect(sent.summary?.succeededCount == 3)
    #expect(sent.summary?.environment == .production)
    #expect(sent.summary?.bundleId == Climb.bundleID)
    #expect(sent.summary?.appAppleId == 1_500_000_001)
  }

  @Test func `a signed notification has exactly one of data, summary, token and app data`() throws {
    var store = Climb.store()
    let sent = [
      try store.buy(Climb.monthly, at: Climb.start).notification,
      try store.test(bundleID: Climb.bundleID, at: .day(1)),
      try store.summarizeExtension(
        NotificationSummary(environment: .production, bundleId: ""), bundleID: Climb.bundleID, at: .day(1)),
      try store.externalPurchase(.created, bundleID: Climb.bundleID, at: .day(1)),
      try store.rescindConsent(bundleID: Climb.bundleID, at: .day(1)),
    ]
    let signer = try SigningAuthority().signer
    let members = try sent.map { notification in
      let signed = try SignedNotification(notification, by: signer).signedPayload
      let payload = try #require(signed.split(separator: ".").dropFirst().first)
      let json = try #require(
        Data(
          base64Encoded: payload.replacing("-", with: "+").replacing("_", with: "/")
            + String(repeating: "=", count: (4 - payload.utf8.count % 4) % 4)))
      let claims = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
      return Set(claims.keys).intersection(["data", "summary", "externalPurchaseToken", "appData"])
    }
    #expect(members == [["data"], ["data"], ["summary"], ["externalPurchaseToken"], ["appData"]])
  }

  @Test func `a failed extension sends a notification and does not change the expiry`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let failed = try store.perform(.failToExtend, on: id, at: .day(1))
    #expect(failed.notification.type == .renewalExtension)
    #expect(failed.notification.subtype == .failure)
    #expect(failed.transaction.expiresDate == .day(31))
  }
}
