import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

/// Apple's Python client changes purchases in the store.
struct AppleActionTests {
  typealias Operation = AppleLibrary.Operation

  private static func buy(
    _ product: String, _ store: SimulatedAppStore, account: String? = nil, offer: StoreOffer? = nil,
    ownership: InAppOwnershipType = .purchased
  ) throws -> SignedOutcome {
    try store.buy(
      PurchaseRequest(
        bundleID: Climb.bundleID, productID: product, accountID: account, offer: offer,
        ownership: ownership))
  }

  private static func extend(_ id: String, _ request: JSON) -> Operation {
    Operation(do: "extend_subscription_renewal_date", id: id, request: request)
  }

  @Test func `Apple's Python client extends a subscription at most twice a year`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let bought = try Self.buy(Climb.monthly, store)
      let id = bought.originalTransactionID
      let trial = try Self.buy(Climb.monthly, store, offer: .freeTrial()).originalTransactionID
      let shared = try Self.buy(Climb.family, store, ownership: .familyShared).originalTransactionID
      let refunded = try Self.buy(Climb.monthly, store).originalTransactionID
      _ = try store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: refunded)
      let lifetime = try Self.buy(Climb.lifetime, store).originalTransactionID
      let good: JSON = ["extendByDays": 90, "extendReasonCode": 3, "requestIdentifier": "a"]
      let outcomes = try await apple.run([
        Self.extend(id, good), Self.extend(id, good), Self.extend(id, good), Self.extend(trial, good),
        Self.extend(refunded, good), Self.extend(shared, good), Self.extend(lifetime, good),
        Self.extend("1", good), Self.extend("x", good),
        Self.extend(id, ["extendByDays": 91, "extendReasonCode": 0, "requestIdentifier": "a"]),
        Self.extend(id, ["extendByDays": 0, "extendReasonCode": 0, "requestIdentifier": "a"]),
        Self.extend(id, ["extendByDays": 1, "requestIdentifier": "a"]),
        Self.extend(id, ["extendByDays": 1, "extendReasonCode": 1]),
        Self.extend(
          id,
          [
            "extendByDays": 1, "extendReasonCode": 1,
            "requestIdentifier": .string(String(repeating: "x", count: 129)),
          ]),
      ])
      let answer = outcomes[0].value
      #expect(answer?["success"]?.bool == true)
      #expect(answer?["originalTransactionId"]?.string == id)
      #expect(answer?["webOrderLineItemId"]?.string == bought.transaction.webOrderLineItemId)
      let end = try #require(bought.transaction.expiresDate)
      #expect(answer?["effectiveDate"]?.number == (end + 90 * 86_400).millisecondsSince1970)
      #expect(outcomes[1].value?["success"]?.bool == true)
      #expect(store.truth(of: id)?.expiresDate == end + 180 * 86_400)
      #expect(
        outcomes[2...].map(\.error?.name) == [
          "SUBSCRIPTION_MAX_EXTENSION", "SUBSCRIPTION_EXTENSION_INELIGIBLE",
          "SUBSCRIPTION_EXTENSION_INELIGIBLE", "FAMILY_SHARED_SUBSCRIPTION_EXTENSION_INELIGIBLE",
          "ORIGINAL_TRANSACTION_ID_NOT_FOUND", "ORIGINAL_TRANSACTION_ID_NOT_FOUND",
          "INVALID_ORIGINAL_TRANSACTION_ID", "INVALID_EXTEND_BY_DAYS", "INVALID_EXTEND_BY_DAYS",
          "INVALID_EXTEND_REASON_CODE", "INVALID_REQUEST_IDENTIFIER", "INVALID_REQUEST_IDENTIFIER",
        ])
      #expect(store.notifications.filter { $0.content.type == .renewalExtended }.count == 2)
    }
  }

  @Test func `Apple's Python client can extend a subscription again after a year`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.annual, at: Climb.start).originalTransactionID
    func extend(_ day: Double) -> StoreRefusal? {
      do throws(StoreRefusal) {
        _ = try store.extend(id, in: Climb.bundleID, days: 90, at: .day(day))
        return nil
      } catch {
        return error
      }
    }
    #expect(extend(1) == nil)
    #expect(extend(2) == nil)
    #expect(extend(365.9) == .serverAPI(.subscriptionMaxExtension))
    #expect(extend(366) == nil)
    #expect(extend(366.5) == .serverAPI(.subscriptionMaxExtension))
    #expect(extend(1000) == .serverAPI(.subscriptionExtensionIneligible))
  }

  @Test func `Apple's Python client extends every active subscription of a product`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let ann = try Self.buy(Climb.monthly, store)
      let ben = try Self.buy(Climb.monthly, store)
      let trial = try Self.buy(Climb.monthly, store, offer: .freeTrial())
      let annual = try Self.buy(Climb.annual, store)
      func mass(_ change: (inout [String: JSON]) -> Void) -> Operation {
        var body: [String: JSON] = [
          "extendByDays": 5, "extendReasonCode": 3, "requestIdentifier": "outage",
          "productId": .string(Climb.monthly), "storefrontCountryCodes": ["USA", "DEU"],
        ]
        change(&body)
        return Operation(do: "extend_renewal_date_for_all_active_subscribers", request: .object(body))
      }
      func status(_ identifier: String) -> Operation {
        Operation(
          do: "get_status_of_subscription_renewal_date_extensions", id: Climb.monthly, token: identifier)
      }
      let outcomes = try await apple.run([
        mass { _ in }, status("outage"), mass { _ in },
        mass {
          $0["storefrontCountryCodes"] = ["FRA"]
          $0["requestIdentifier"] = "elsewhere"
        },
        status("elsewhere"), status("never"), mass { $0["storefrontCountryCodes"] = [] },
        mass { $0["productId"] = "nothing" },
        mass { $0["extendByDays"] = 100 }, mass { $0["extendReasonCode"] = nil },
        mass { $0["requestIdentifier"] = "" }, mass { $0["storefrontCountryCodes"] = ["US"] },
      ])
      #expect(outcomes[0].value?["requestIdentifier"]?.string == "outage")
      let done = outcomes[1].value
      #expect(done?["requestIdentifier"]?.string == "outage")
      #expect(done?["complete"]?.bool == true)
      #expect(done?["completeDate"]?.number != nil)
      #expect(done?["succeededCount"]?.number == 2)
      #expect(done?["failedCount"]?.number == 1)
      // A repeated identifier is accepted and does nothing.
      #expect(outcomes[2].value?["requestIdentifier"]?.string == "outage")
      #expect(outcomes[4].value?["succeededCount"]?.number == 0)
      #expect(
        outcomes[5...].map(\.error?.name) == [
          "STATUS_REQUEST_NOT_FOUND", "INVALID_EMPTY_STOREFRONT_COUNTRY_CODE_LIST",
          "INVALID_PRODUCT_ID", "INVALID_EXTEND_BY_DAYS", "INVALID_EXTEND_REASON_CODE",
          "INVALID_REQUEST_IDENTIFIER", "INVALID_STOREFRONT_COUNTRY_CODE",
        ])
      for (bought, days) in [(ann, 5.0), (ben, 5), (trial, 0), (annual, 0)] {
        let end = try #require(bought.transaction.expiresDate)
        #expect(store.truth(of: bought.transactionID)?.expiresDate == end + days * 86_400)
      }
      let sent = store.notifications.dropFirst(4).map(\.content)
      #expect(
        sent.map { "\($0.type) \($0.subtype?.rawValue ?? "")" }.sorted() == [
          "RENEWAL_EXTENDED ", "RENEWAL_EXTENDED ", "RENEWAL_EXTENSION FAILURE",
          "RENEWAL_EXTENSION SUMMARY", "RENEWAL_EXTENSION SUMMARY",
        ])
      #expect(sent.first { $0.subtype == .summary }?.summary?.storefrontCountryCodes == ["USA", "DEU"])
      #expect(
        sent.first { $0.subtype == .failure }?.transaction?.transactionId == trial.transactionID)
    }
  }

  @Test func `Apple's Python client sends consumption information`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let coins = try Self.buy(Climb.coins, store)
      let id = coins.transactionID
      let lifetime = try Self.buy(Climb.lifetime, store).transactionID
      let shared = try Self.buy(Climb.family, store, ownership: .familyShared).transactionID
      let subscription = try Self.buy(Climb.annual, store).transactionID
      let good: [String: JSON] = [
        "customerConsented": true, "sampleContentProvided": false, "deliveryStatus": "DELIVERED",
        "consumptionPercentage": 50_000, "refundPreference": "GRANT_PRORATED",
      ]
      func send(_ id: String, _ name: String? = nil, _ value: JSON = .null) -> Operation {
        var body = good
        if let name { body[name] = value }
        return Operation(do: "send_consumption_information", id: id, request: .object(body))
      }
      let outcomes = try await apple.run([
        send(id), send(lifetime),
        send(id, "customerConsented", false), send(id, "deliveryStatus", "LOST"), send("1"), send(shared),
        send(id, "consumptionPercentage", 100_001), send(id, "deliveryStatus", "UNDELIVERED_OTHER"),
        send(id, "consumptionPercentage", 0), send(subscription),
        send(subscription, "consumptionPercentage", .null),
      ])
      #expect(outcomes[..<2].map(\.error) == [nil, nil])
      #expect(
        outcomes[2...].map(\.error?.name) == [
          "INVALID_CUSTOMER_CONSENTED", "INVALID_DELIVERY_STATUS", "TRANSACTION_ID_NOT_FOUND",
          "FAMILY_TRANSACTION_NOT_SUPPORTED_ERROR", "GENERAL_BAD_REQUEST", "GENERAL_BAD_REQUEST",
          "GENERAL_BAD_REQUEST", "GENERAL_BAD_REQUEST", nil,
        ])
      let reports = store.consumptionReports
      #expect(reports.map(\.transactionID) == [id, lifetime, subscription])
      #expect(reports[0].body.consumptionPercentage == 50_000)
      #expect(reports[0].body.customerConsented)
      #expect(reports[0].body.refundPreference == .grantProrated)
    }
  }

  @Test func `Apple's Python client sets an app account token, and all later payloads have it`() async throws
  {
    try await AppleLibraryTests.withServer { store, apple in
      let bought = try Self.buy(Climb.monthly, store)
      let id = bought.originalTransactionID
      let before = try store.perform(.renew, on: id)
      #expect(before.transaction.appAccountToken == nil)
      let shared = try Self.buy(Climb.family, store, ownership: .familyShared).transactionID
      let token = UUID()
      func set(_ id: String, _ token: String) -> Operation {
        Operation(do: "set_app_account_token", id: id, request: ["appAccountToken": .string(token)])
      }
      let outcomes = try await apple.run([
        set(id, token.uuidString.lowercased()), Operation(do: "get_transaction_info", id: id),
        Operation(do: "get_all_subscription_statuses", id: id), set(id, "mine"),
        set(shared, token.uuidString), set(before.transactionID, token.uuidString),
        set("1", token.uuidString),
      ])
      #expect(outcomes[0].error == nil)
      let verifier = SignedDataVerifier(
        roots: try TrustedRoots(files: [store.identity.authority.rootDER]))
      let first = try #require(outcomes[1].value?["signedTransactionInfo"]?.string)
      #expect(try verifier.transaction(first).payload.appAccountToken == token)
      let last = try #require(outcomes[2].value?["data"]?[0]?["lastTransactions"]?[0])
      let current = try #require(last["signedTransactionInfo"]?.string)
      #expect(try verifier.transaction(current).payload.appAccountToken == token)
      let renewal = try #require(last["signedRenewalInfo"]?.string)
      #expect(try verifier.renewalInfo(renewal).payload.appAccountToken == token)
      #expect(try store.perform(.renew, on: id).transaction.appAccountToken == token)
      #expect(
        outcomes[3...].map(\.error?.name) == [
          "INVALID_APP_ACCOUNT_TOKEN_UUID_ERROR", "FAMILY_TRANSACTION_NOT_SUPPORTED_ERROR",
          "TRANSACTION_ID_IS_NOT_ORIGINAL_TRANSACTION_ID_ERROR", "ORIGINAL_TRANSACTION_ID_NOT_FOUND",
        ])
    }
  }
}
