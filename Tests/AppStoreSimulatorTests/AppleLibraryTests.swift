import AppStore
import Crypto
import Foundation
import Testing

@testable import AppStoreSimulator

/// Apple's Python library verifies the simulator's payloads and calls its API.
struct AppleLibraryTests {
  typealias Operation = AppleLibrary.Operation

  /// Runs `body` on a store with a server of its own.
  static func withServer(
    sender: any NotificationSender = RecordingSender(),
    _ body: (SimulatedAppStore, AppleLibrary) async throws -> Void
  ) async throws {
    let store = try SimulatedAppStore(
      apps: [Climb.app], webhook: "http://127.0.0.1/webhook", clock: VirtualClock { Climb.start },
      sender: sender)
    let server = try await SimulatorServer(store: store)
    let address = try server.start()
    let apple = AppleLibrary(identity: store.identity, app: Climb.app, base: "http://\(address)")
    do {
      try await body(store, apple)
    } catch {
      await server.shutdown()
      throw error
    }
    await server.shutdown()
  }

  private static let start = Int64(Climb.start.timeIntervalSince1970 * 1000)
  private static let day: Int64 = 86_400_000

  @Test(arguments: ["Production", "Sandbox"])
  func `Apple's Python library verifies a transaction, a renewal info, a notification and an app transaction`(
    environment: String
  ) async throws {
    try await Self.withServer { store, apple in
      let token = UUID()
      let bought = try store.buy(
        PurchaseRequest(
          bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "ann", appAccountToken: token,
          offer: .freeTrial()), in: Environment(rawValue: environment))
      let (_, appTransaction) = try store.appTransaction(
        of: Climb.bundleID, accountID: "ann", in: Environment(rawValue: environment))
      let outcomes = try await apple.run([
        Operation(do: "transaction", environment: environment, jws: bought.signedTransaction),
        Operation(do: "renewal_info", environment: environment, jws: bought.signedRenewalInfo),
        Operation(do: "notification", environment: environment, jws: bought.notification.signedPayload),
        Operation(do: "app_transaction", environment: environment, jws: appTransaction),
      ])
      #expect(outcomes.map(\.error) == [nil, nil, nil, nil])

      let transaction = try #require(outcomes[0].value)
      let expected = bought.transaction
      #expect(transaction["transactionId"]?.string == expected.transactionId)
      #expect(transaction["originalTransactionId"]?.string == expected.transactionId)
      #expect(transaction["webOrderLineItemId"]?.string == expected.webOrderLineItemId)
      #expect(transaction["bundleId"]?.string == Climb.bundleID)
      #expect(transaction["productId"]?.string == Climb.monthly)
      #expect(transaction["subscriptionGroupIdentifier"]?.string == "20000001")
      #expect(transaction["purchaseDate"]?.number == Self.start)
      #expect(transaction["originalPurchaseDate"]?.number == Self.start)
      #expect(transaction["expiresDate"]?.number == Self.start + 7 * Self.day)
      #expect(transaction["signedDate"]?.number == Self.start)
      #expect(transaction["quantity"]?.number == 1)
      #expect(transaction["type"]?.string == "Auto-Renewable Subscription")
      #expect(transaction["appAccountToken"]?.string?.lowercased() == token.uuidString.lowercased())
      #expect(transaction["inAppOwnershipType"]?.string == "PURCHASED")
      #expect(transaction["environment"]?.string == environment)
      #expect(transaction["storefront"]?.string == "USA")
      #expect(transaction["storefrontId"]?.string == "143441")
      #expect(transaction["transactionReason"]?.string == "PURCHASE")
      #expect(transaction["currency"]?.string == "USD")
      #expect(transaction["price"]?.number == 0)
      #expect(transaction["offerType"]?.number == 1)
      #expect(transaction["offerDiscountType"]?.string == "FREE_TRIAL")
      #expect(transaction["offerPeriod"]?.string == "P1W")
      #expect(transaction["appTransactionId"]?.string == expected.appTransactionId)

      let renewal = try #require(outcomes[1].value)
      #expect(renewal["originalTransactionId"]?.string == expected.transactionId)
      #expect(renewal["productId"]?.string == Climb.monthly)
      #expect(renewal["autoRenewProductId"]?.string == Climb.monthly)
      #expect(renewal["autoRenewStatus"]?.number == 1)
      #expect(renewal["isInBillingRetryPeriod"]?.bool == false)
      #expect(renewal["renewalDate"]?.number == Self.start + 7 * Self.day)
      #expect(renewal["renewalPrice"]?.number == 4990)
      #expect(renewal["recentSubscriptionStartDate"]?.number == Self.start)
      #expect(renewal["environment"]?.string == environment)

      let notification = try #require(outcomes[2].value)
      #expect(notification["notificationType"]?.string == "SUBSCRIBED")
      #expect(notification["subtype"]?.string == "INITIAL_BUY")
      #expect(notification["notificationUUID"]?.string == bought.notification.uuid)
      #expect(notification["version"]?.string == "2.0")
      #expect(notification["signedDate"]?.number == Self.start)
      #expect(notification["data"]?["status"]?.number == 1)
      #expect(notification["data"]?["environment"]?.string == environment)
      #expect(notification["data"]?["bundleVersion"]?.string == "1.0")
      #expect(notification["data"]?["signedTransactionInfo"]?.string == bought.signedTransaction)
      #expect(notification["data"]?["signedRenewalInfo"]?.string == bought.signedRenewalInfo)

      let app = try #require(outcomes[3].value)
      #expect(app["receiptType"]?.string == environment)
      #expect(app["bundleId"]?.string == Climb.bundleID)
      #expect(app["applicationVersion"]?.string == "1.0")
      #expect(app["originalApplicationVersion"]?.string == "1.0")
      #expect(app["originalPurchaseDate"]?.number == Self.start)
      #expect(app["originalPlatform"]?.string == "iOS")
      #expect(app["appTransactionId"]?.string == expected.appTransactionId)
      #expect(app["deviceVerification"]?.string != nil)
      #expect(app["deviceVerificationNonce"]?.string != nil)
    }
  }

  @Test func `Apple's Python library reads notifications of every type that the simulator sends`()
    async throws
  {
    try await Self.withServer { store, apple in
      let family = PurchaseRequest(
        bundleID: Climb.bundleID, productID: Climb.family, ownership: .familyShared)
      let shared = try store.buy(family)
      let lifetime = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.lifetime))
      let id = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly))
        .originalTransactionID
      _ = try store.test(bundleID: Climb.bundleID)
      _ = try store.perform(.revoke, on: shared.originalTransactionID)
      _ = try store.perform(
        .refund(transactionID: nil, percentage: 50, reason: .refundedDueToIssue),
        on: lifetime.originalTransactionID)
      for command in [
        SubscriptionCommand.setAutoRenew(false), .setAutoRenew(true), .announcePrice(5990), .acceptPrice,
        .failToRenew(grace: true), .recover, .changeProduct(Climb.annual), .changeProduct(Climb.monthly),
        .changeProduct(Climb.family), .renew, .extend(days: 3),
        .requestConsumption(transactionID: nil, reason: .legal), .declineRefund(transactionID: nil),
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
        .reverseRefund(transactionID: nil),
      ] {
        _ = try store.perform(command, on: id)
      }
      for command in [
        SubscriptionCommand.redeem(.discount(.offerCode), productID: nil), .failToExtend,
        .share(accountID: nil),
      ] {
        _ = try store.perform(command, on: id)
      }
      let made = try store.externalPurchase(.created, bundleID: Climb.bundleID)
      _ = try store.externalPurchase(
        .unreported, id: made.content.externalPurchaseToken?.externalPurchaseId, bundleID: Climb.bundleID)
      _ = try store.rescindConsent(bundleID: Climb.bundleID)
      // The library does not know CREATED.
      let notifications = store.notifications.filter { $0.content.subtype != .created }
      #expect(notifications.count == 27)
      var operations: [Operation] = []
      for notification in notifications {
        operations.append(Operation(do: "notification", jws: notification.signedPayload))
      }
      let outcomes = try await apple.run(operations)
      for (notification, outcome) in zip(notifications, outcomes) {
        #expect(outcome.error == nil, "\(notification.content.type)")
        #expect(outcome.value?["notificationType"]?.string == notification.content.type.rawValue)
        #expect(outcome.value?["subtype"]?.string == notification.content.subtype?.rawValue)
      }
      // The inner payloads are verified separately, as in a server.
      var inner: [Operation] = []
      for data in outcomes.compactMap({ $0.value?["data"] }) {
        if let jws = data["signedTransactionInfo"]?.string {
          inner.append(Operation(do: "transaction", jws: jws))
        }
        if let jws = data["signedRenewalInfo"]?.string {
          inner.append(Operation(do: "renewal_info", jws: jws))
        }
      }
      for data in outcomes.compactMap({ $0.value?["appData"] }) {
        if let jws = data["signedAppTransactionInfo"]?.string {
          inner.append(Operation(do: "app_transaction", jws: jws))
        }
      }
      #expect(inner.count == 24 + 22 + 1)
      #expect(try await apple.run(inner).allSatisfy { $0.error == nil })
    }
  }

  @Test func `Apple's Python library refuses payloads of another signer, environment or app`() async throws {
    try await Self.withServer { store, apple in
      let bought = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly))
      let unmarked = try store.identity.authority.makeSigner(marked: false).sign(bought.transaction)
      let foreign = try SigningAuthority().signer.sign(bought.transaction)
      let outcomes = try await apple.run([
        Operation(do: "transaction", jws: unmarked), Operation(do: "transaction", jws: foreign),
        Operation(do: "transaction", environment: "Sandbox", jws: bought.signedTransaction),
        Operation(do: "transaction", jws: bought.signedTransaction, bundleID: "com.example.other"),
      ])
      #expect(
        outcomes.map(\.error?.verification) == [
          "VERIFICATION_FAILURE", "VERIFICATION_FAILURE", "INVALID_ENVIRONMENT", "INVALID_APP_IDENTIFIER",
        ])
    }
  }

  @Test func `Apple's Python client calls the simulator's App Store Server API`() async throws {
    try await Self.withServer { store, apple in
      let bought = try store.buy(
        PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "ann"))
      let renewed = try store.perform(.renew, on: bought.originalTransactionID)
      let sandboxed = try store.buy(
        PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.lifetime), in: .sandbox)
      let outcomes = try await apple.run([
        Operation(do: "get_transaction_info", id: bought.transactionID),
        Operation(do: "get_all_subscription_statuses", id: bought.transactionID),
        Operation(do: "get_transaction_history", id: renewed.transactionID),
        Operation(
          do: "get_transaction_info", environment: "Sandbox", id: sandboxed.transactionID),
        Operation(
          do: "get_all_subscription_statuses", environment: "Sandbox", id: sandboxed.transactionID),
      ])
      #expect(outcomes.map(\.error) == [nil, nil, nil, nil, nil])

      let verifier = SignedDataVerifier(
        roots: try TrustedRoots(files: [store.identity.authority.rootDER]))
      let info = try #require(outcomes[0].value?["signedTransactionInfo"]?.string)
      #expect(try verifier.transaction(info).payload.transactionId == bought.transactionID)

      let statuses = try #require(outcomes[1].value)
      #expect(statuses["environment"]?.string == "Production")
      #expect(statuses["bundleId"]?.string == Climb.bundleID)
      #expect(statuses["appAppleId"]?.number == Climb.app.appAppleID)
      #expect(statuses["data"]?[0]?["subscriptionGroupIdentifier"]?.string == "20000001")
      let last = try #require(statuses["data"]?[0]?["lastTransactions"]?[0])
      #expect(last["status"]?.number == 1)
      #expect(last["originalTransactionId"]?.string == bought.originalTransactionID)
      let current = try #require(last["signedTransactionInfo"]?.string)
      #expect(try verifier.transaction(current).payload.transactionId == renewed.transactionID)
      let renewal = try #require(last["signedRenewalInfo"]?.string)
      #expect(try verifier.renewalInfo(renewal).payload.autoRenewStatus == .on)

      #expect(outcomes[2].value?["signedTransactions"]?.array?.count == 2)
      #expect(outcomes[2].value?["hasMore"]?.bool == false)
      let sandbox = try #require(outcomes[3].value?["signedTransactionInfo"]?.string)
      #expect(try verifier.transaction(sandbox).payload.environment == .sandbox)
      #expect(outcomes[4].value?["data"]?.array == [])
    }
  }

  @Test func `Apple's Python client gets Apple's errors for unknown ids and wrong keys`() async throws {
    try await Self.withServer { store, apple in
      let bought = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly))
      let id = bought.transactionID
      let otherKey = ConnectKey().pem
      let outcomes = try await apple.run([
        Operation(do: "get_transaction_info", id: "1"),
        Operation(do: "get_all_subscription_statuses", id: "1"),
        Operation(do: "get_transaction_info", environment: "Sandbox", id: id),
        Operation(do: "get_transaction_info", id: "abc"),
        Operation(do: "get_transaction_info", id: id, key: otherKey),
        Operation(do: "get_transaction_info", id: id, keyID: "OTHERKEYID"),
        Operation(do: "get_transaction_info", id: id, issuerID: UUID().uuidString),
        Operation(do: "get_transaction_info", id: id, bundleID: "com.example.other"),
      ])
      let notFound = AppleLibrary.Outcome.Failure(
        status: 404, code: 4_040_010, name: "TRANSACTION_ID_NOT_FOUND")
      let invalid = AppleLibrary.Outcome.Failure(
        status: 400, code: 4_000_006, name: "INVALID_TRANSACTION_ID")
      // 401 has no code, because its body is not JSON.
      let unauthorized = AppleLibrary.Outcome.Failure(status: 401)
      #expect(
        outcomes.map(\.error) == [
          notFound, notFound, notFound, invalid, unauthorized, unauthorized,
          unauthorized, unauthorized,
        ])
    }
  }

  @Test func `Apple's Python client reads the notification history page by page`() async throws {
    try await Self.withServer { store, apple in
      let id = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly))
        .originalTransactionID
      for _ in 0..<24 { _ = try store.perform(.setAutoRenew(true), on: id) }
      for notification in store.notifications { await store.deliver(notification.uuid) }
      let (start, end) = (Self.start - 1000, Self.start + 1000)
      let period: JSON = ["startDate": .number(start), "endDate": .number(end)]
      let outcomes = try await apple.run([
        Operation(do: "get_notification_history", request: period),
        Operation(do: "get_notification_history", paginationToken: "20", request: period),
        Operation(
          do: "get_notification_history", request: ["startDate": .number(end), "endDate": .number(start)]),
        Operation(do: "get_notification_history", environment: "Sandbox", request: period),
      ])
      let (first, second) = (try #require(outcomes[0].value), try #require(outcomes[1].value))
      #expect(first["notificationHistory"]?.array?.count == 20)
      #expect(first["hasMore"]?.bool == true)
      #expect(first["paginationToken"]?.string == "20")
      #expect(second["notificationHistory"]?.array?.count == 5)
      #expect(second["hasMore"]?.bool == false)
      #expect(second["paginationToken"] == nil)
      let item = try #require(first["notificationHistory"]?[0])
      #expect(item["signedPayload"]?.string == store.notifications[0].signedPayload)
      #expect(item["sendAttempts"]?[0]?["sendAttemptResult"]?.string == "SUCCESS")
      #expect(item["sendAttempts"]?[0]?["attemptDate"]?.number == Self.start)
      #expect(outcomes[2].error?.code == 4_000_013)
      #expect(outcomes[3].value?["notificationHistory"]?.array == [])
    }
  }
}
