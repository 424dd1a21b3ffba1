import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

/// Apple's Python client requests notifications, and its verifier reads every form of them.
struct AppleNotificationTests {
  typealias Operation = AppleLibrary.Operation

  private static let now = Int64(Climb.start.timeIntervalSince1970 * 1000)
  private static let day: Int64 = 86_400_000

  private static func history(
    daysBack: Int64 = 1, in environment: String = "Production", _ more: [String: JSON] = [:],
    do name: String = "get_notification_history"
  ) -> Operation {
    var body = more
    body["startDate"] = .number(now - daysBack * day)
    body["endDate"] = .number(now + day)
    return Operation(do: name, environment: environment, request: .object(body))
  }

  private static func types(in outcome: AppleLibrary.Outcome) -> Int? {
    outcome.value?["notificationHistory"]?.array?.count
  }

  @Test func `Apple's Python client requests a test notification and its status`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let asked = try await apple.run([Operation(do: "request_test_notification")])
      let token = try #require(asked[0].value?["testNotificationToken"]?.string)
      // It is sent after the response, so the test sends it again and waits.
      await store.deliver(token)
      let outcomes = try await apple.run([
        Operation(do: "get_test_notification_status", token: token),
        Operation(do: "get_test_notification_status", token: "nonsense"),
        Operation(do: "get_test_notification_status", token: UUID().uuidString),
        Operation(do: "get_test_notification_status", environment: "Sandbox", token: token),
      ])
      #expect(outcomes[0].value?["sendAttempts"]?[0]?["sendAttemptResult"]?.string == "SUCCESS")
      #expect(outcomes[0].value?["signedPayload"]?.string == store.notification(token)?.signedPayload)
      #expect(
        outcomes[1...].map(\.error?.name) == [
          "INVALID_TEST_NOTIFICATION_TOKEN", "TEST_NOTIFICATION_NOT_FOUND",
          "TEST_NOTIFICATION_NOT_FOUND",
        ])
      store.setWebhook(nil)
      let nowhere = try await apple.run([Operation(do: "request_test_notification")])
      #expect(nowhere[0].error?.name == "SERVER_NOTIFICATION_URL_NOT_FOUND")
    }
  }

  @Test func `Apple's Python client filters the notification history by customer, type or failure`()
    async throws
  {
    try await AppleLibraryTests.withServer { store, apple in
      func buy(_ product: String, _ account: String) throws -> SignedOutcome {
        try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: product, accountID: account))
      }
      let ann = try buy(Climb.monthly, "ann")
      let renewed = try store.perform(.renew, on: ann.originalTransactionID)
      let coins = try buy(Climb.coins, "ann")
      let ben = try buy(Climb.monthly, "ben")
      for notification in [ann.notification, coins.notification] { await store.deliver(notification.uuid) }
      // A notification that is lost and then delivered is not a failure.
      var faults = DeliveryFaults()
      faults.lose = 2
      await store.setDeliveryFaults(faults)
      for uuid in [renewed.notification.uuid, ben.notification.uuid, ben.notification.uuid] {
        await store.deliver(uuid)
      }
      let id = JSON.string(renewed.transactionID)
      let outcomes = try await apple.run([
        Self.history(["transactionId": id]), Self.history(["transactionId": .string(coins.transactionID)]),
        Self.history(["transactionId": .string(ben.transactionID)]), Self.history(["transactionId": "1"]),
        Self.history(["notificationType": "SUBSCRIBED"]),
        Self.history(["notificationType": "SUBSCRIBED", "notificationSubtype": "INITIAL_BUY"]),
        Self.history(["notificationType": "SUBSCRIBED", "notificationSubtype": "RESUBSCRIBE"]),
        Self.history(["onlyFailures": true]),
      ])
      #expect(outcomes.map(Self.types) == [3, 3, 1, 0, 2, 2, 0, 1])
      let failure = outcomes[7].value?["notificationHistory"]?[0]
      #expect(failure?["signedPayload"]?.string == renewed.notification.signedPayload)
      #expect(failure?["sendAttempts"]?[0]?["sendAttemptResult"]?.string == "TIMED_OUT")
    }
  }

  @Test
  func
    `Apple's Python client reads all pages of the history, no further back than Apple keeps notifications`()
    async throws
  {
    try await AppleLibraryTests.withServer { store, apple in
      for environment in [Environment.production, .sandbox] {
        for _ in 0..<41 { _ = try store.test(bundleID: Climb.bundleID, in: environment) }
      }
      let outcomes = try await apple.run([
        Self.history(daysBack: 180, do: "get_notification_history_pages"),
        Self.history(daysBack: 30, in: "Sandbox", do: "get_notification_history_pages"),
        Self.history(daysBack: 181), Self.history(daysBack: 31, in: "Sandbox"),
        Self.history(daysBack: -2), Self.history(["notificationType": "TEST", "transactionId": "1"]),
        Self.history(["notificationType": "TEST", "notificationSubtype": "UPGRADE"]),
        Self.history(["notificationSubtype": "UPGRADE"]), Self.history(["transactionId": "me"]),
        Operation(do: "get_notification_history", request: ["startDate": 1]),
        Operation(do: "get_notification_history", request: ["endDate": 1]),
        Operation(do: "get_notification_history", paginationToken: "x", request: Self.history().request),
      ])
      for index in 0...1 {
        let pages = outcomes[index].value?.array?.map { $0["notificationHistory"]?.array?.count }
        #expect(pages == [20, 20, 1])
      }
      #expect(
        outcomes[2...].map(\.error?.name) == [
          "START_DATE_TOO_FAR_IN_PAST", "START_DATE_TOO_FAR_IN_PAST", "START_DATE_AFTER_END_DATE",
          "MULTIPLE_FILTERS_SUPPLIED", "INVALID_NOTIFICATION_TYPE", "INVALID_NOTIFICATION_TYPE",
          "INVALID_TRANSACTION_ID", "INVALID_END_DATE",
          "INVALID_START_DATE", "INVALID_PAGINATION_TOKEN",
        ])
    }
  }

  @Test(arguments: ["Production", "Sandbox"])
  func
    `Apple's Python library verifies notifications with data, summary, external purchase token and app data`(
      environment: String
    ) async throws
  {
    try await AppleLibraryTests.withServer { store, apple in
      let place = Environment(rawValue: environment)
      let bought = try store.buy(
        PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "kid"), in: place)
      let token = try store.externalPurchase(.created, bundleID: Climb.bundleID, in: place)
      _ = try store.externalPurchase(
        .unreported, id: token.content.externalPurchaseToken?.externalPurchaseId,
        bundleID: Climb.bundleID, in: place)
      _ = try store.rescindConsent(bundleID: Climb.bundleID, accountID: "kid", in: place)
      let extended = try await apple.run([
        Operation(
          do: "extend_renewal_date_for_all_active_subscribers", environment: environment,
          request: [
            "extendByDays": 5, "extendReasonCode": 3, "requestIdentifier": "outage",
            "productId": .string(Climb.monthly), "storefrontCountryCodes": ["USA"],
          ])
      ])
      #expect(extended[0].error == nil)
      // The library's version 3.1.2 does not know the subtype CREATED.
      let known = store.notifications.filter { $0.uuid != token.uuid }
      let outcomes = try await apple.run(
        known.map { Operation(do: "notification", environment: environment, jws: $0.signedPayload) })
      #expect(outcomes.map(\.error) == [nil, nil, nil, nil, nil])
      let values = outcomes.compactMap(\.value)
      #expect(
        values.map { $0["notificationType"]?.string } == [
          "SUBSCRIBED", "EXTERNAL_PURCHASE_TOKEN", "RESCIND_CONSENT", "RENEWAL_EXTENDED",
          "RENEWAL_EXTENSION",
        ])
      #expect(values[0]["data"] != nil)
      #expect(values[1]["externalPurchaseToken"]?["bundleId"]?.string == Climb.bundleID)
      #expect(values[4]["summary"]?["succeededCount"]?.number == 1)
      #expect(values[4]["summary"]?["failedCount"]?.number == 0)
      #expect(values[4]["summary"]?["environment"]?.string == environment)
      #expect(values[4]["data"] == nil)
      let app = try #require(values[2]["appData"]?["signedAppTransactionInfo"]?.string)
      let inner = try await apple.run([
        Operation(do: "app_transaction", environment: environment, jws: app)
      ])
      #expect(inner[0].value?["appTransactionId"]?.string == bought.transaction.appTransactionId)
    }
  }

  @Test func `Apple's Python client reads the simulator's faults by Apple's error names`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let id = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.coins)).transactionID
      for fault in [
        ServerFault.rateLimit(retryAfter: 2), .error(.generalInternal), .error(.generalInternalRetryable),
        .error(.accountNotFoundRetryable), .unauthorized,
      ] {
        store.add(fault.next(1))
      }
      let outcomes = try await apple.run(
        Array(repeating: Operation(do: "get_transaction_info", id: id), count: 6))
      #expect(outcomes.map(\.error?.status) == [429, 500, 500, 404, 401, nil])
      #expect(
        outcomes.map(\.error?.name) == [
          "RATE_LIMIT_EXCEEDED", "GENERAL_INTERNAL", "GENERAL_INTERNAL_RETRYABLE",
          "ACCOUNT_NOT_FOUND_RETRYABLE", nil, nil,
        ])
    }
  }
}
