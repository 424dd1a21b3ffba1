import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// Types that are not about a purchase: `TEST`, `EXTERNAL_PURCHASE_TOKEN`, `RESCIND_CONSENT`, and unknown ones.
@Suite struct AnnouncementTests {
  @Test func `TEST is recorded and changes nothing`() async throws {
    try await withHarness { harness in
      await harness.arrives(try harness.store.test(bundleID: TestApps.climbing))
      #expect(try await harness.latestNotification() == "TEST recorded")
      #expect(try await harness.count("subscriptions") == 0)
    }
  }

  @Test
  func `EXTERNAL_PURCHASE_TOKEN CREATED, UNREPORTED and ACTIVE_TOKEN_REMINDER are stored and grant nothing`()
    async throws
  {
    try await withHarness { harness in
      let created = try harness.store.externalPurchase(.created, bundleID: TestApps.climbing)
      await harness.arrives(created)
      #expect(try await harness.latestNotification() == "EXTERNAL_PURCHASE_TOKEN CREATED recorded")
      let id = created.content.externalPurchaseToken?.externalPurchaseId
      for (event, word) in [
        (ExternalPurchaseEvent.unreported, "UNREPORTED"), (.reminder, "ACTIVE_TOKEN_REMINDER"),
      ] {
        harness.clock.advance(days: 30)
        await harness.arrives(
          try harness.store.externalPurchase(event, id: id, bundleID: TestApps.climbing))
        #expect(try await harness.latestNotification() == "EXTERNAL_PURCHASE_TOKEN \(word) recorded")
      }
      #expect(try await harness.count("subscriptions") == 0)
      let bundle = try await harness.pool.query(
        "SELECT DISTINCT bundle_id, environment FROM notifications")
      #expect(try bundle.count == 1 && bundle[0].decode("bundle_id", as: String.self) == TestApps.climbing)
    }
  }

  @Test func `an EXTERNAL_PURCHASE_TOKEN whose id begins with SANDBOX belongs to the sandbox`() async throws {
    try await withHarness { harness in
      await harness.arrives(
        try harness.store.externalPurchase(.created, bundleID: TestApps.climbing, in: .sandbox))
      let kept = try await harness.pool.query("SELECT environment, outcome FROM notifications")
      #expect(try kept[0].decode("environment", as: String?.self) == "Sandbox")
      #expect(try kept[0].decode("outcome", as: String.self) == "recorded")
    }
  }

  @Test func `RESCIND_CONSENT is stored and changes no purchase`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      await harness.arrives(try harness.store.rescindConsent(bundleID: TestApps.climbing, accountID: "child"))
      #expect(try await harness.latestNotification() == "RESCIND_CONSENT recorded")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }

  @Test func `a notification of an unknown type is stored as pending, and its transactions are processed`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      var renewed = bought.transaction
      renewed.expiresDate = bought.transaction.expiresDate?.addingTimeInterval(86_400)
      renewed.signedDate = bought.transaction.signedDate.addingTimeInterval(60)
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = try harness.sign(renewed)
      var payload = NotificationPayload(
        notificationType: NotificationType(rawValue: "SOMETHING_NEW"),
        notificationUUID: UUID().uuidString.lowercased(),
        signedDate: bought.transaction.signedDate.addingTimeInterval(60))
      payload.subtype = Subtype(rawValue: "AND_ITS_KIND")
      payload.data = data
      let signed = try harness.store.identity.authority.signer.sign(payload)
      #expect(try await harness.notify(signed).status == 200)
      #expect(try await harness.latestNotification() == "SOMETHING_NEW AND_ITS_KIND unknown_type")
      #expect(try await harness.row(of: bought.originalTransactionID).expiry == renewed.expiresDate)
      #expect(try await harness.isPremium(user))
    }
  }
}
