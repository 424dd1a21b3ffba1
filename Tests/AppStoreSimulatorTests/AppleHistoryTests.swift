import AppStore
import Foundation
import HTTP
import Testing

@testable import AppStoreSimulator

/// Apple's Python client reads histories, orders and statuses.
struct AppleHistoryTests {
  typealias Operation = AppleLibrary.Operation

  private static func ids(in answer: JSON?, _ store: SimulatedAppStore) throws -> [String] {
    let verifier = SignedDataVerifier(
      roots: try TrustedRoots(files: [store.identity.authority.rootDER]))
    return try (answer?["signedTransactions"]?.array ?? []).compactMap(\.string)
      .map { try verifier.transaction($0).payload.transactionId }
  }

  @Test func `Apple's Python client reads a transaction history page by page`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      var bought: [String] = []
      for _ in 0..<25 {
        let coins = PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.coins, accountID: "ann")
        bought.append(try store.buy(coins).transactionID)
      }
      // Modified last, so sorted last.
      for id in bought.prefix(21) {
        _ = try store.perform(
          .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: id)
      }
      let id = bought[7]
      let outcomes = try await apple.run([
        Operation(do: "get_transaction_history_pages", id: id),
        Operation(do: "get_transaction_history_pages", id: id, request: ["sort": "DESCENDING"]),
        Operation(do: "get_transaction_history", id: id, revision: "nonsense"),
        Operation(do: "get_transaction_history", id: id, revision: "1_"),
        Operation(do: "get_transaction_history", id: "1"),
      ])
      #expect(outcomes[0].value?.array?.map { $0["signedTransactions"]?.array?.count } == [20, 5])
      let ascending = try (outcomes[0].value?.array ?? []).flatMap { try Self.ids(in: $0, store) }
      #expect(ascending == Array(bought.suffix(4) + bought.prefix(21)))
      let descending = try (outcomes[1].value?.array ?? []).flatMap { try Self.ids(in: $0, store) }
      #expect(descending == ascending.reversed())
      #expect(
        outcomes[2...].map(\.error?.name) == [
          "INVALID_REQUEST_REVISION", "INVALID_REQUEST_REVISION", "TRANSACTION_ID_NOT_FOUND",
        ])
    }
  }

  @Test func `Apple's Python client reads only the transactions that match the history's filter`()
    async throws
  {
    try await AppleLibraryTests.withServer { store, apple in
      func buy(_ product: String, at day: Double) throws -> String {
        var request = PurchaseRequest(bundleID: Climb.bundleID, productID: product, accountID: "ann")
        request.purchaseDate = .day(day)
        if product == Climb.family { request.ownership = .familyShared }
        return try store.buy(request).transactionID
      }
      let coins = try buy(Climb.coins, at: -3)
      let lifetime = try buy(Climb.lifetime, at: -2)
      let shared = try buy(Climb.family, at: -1)
      _ = try store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: coins)
      func ms(_ day: Double) -> JSON { .number(Int64(Date.day(day).timeIntervalSince1970 * 1000)) }
      let filters: [(JSON, Set<String>)] = [
        (["productIds": [.string(Climb.coins), .string(Climb.lifetime)]], [coins, lifetime]),
        (["productTypes": ["CONSUMABLE", "AUTO_RENEWABLE"]], [coins, shared]),
        (["productTypes": ["NON_CONSUMABLE", "NON_RENEWABLE"]], [lifetime]),
        (["subscriptionGroupIdentifiers": ["20000001"]], [shared]),
        (["inAppOwnershipType": "FAMILY_SHARED"], [shared]),
        (["inAppOwnershipType": "PURCHASED"], [coins, lifetime]),
        (["revoked": true], [coins]),
        (["revoked": false], [lifetime, shared]),
        (["startDate": ms(-2)], [lifetime, shared]),
        (["endDate": ms(-2)], [coins]),
        (["startDate": ms(-2), "endDate": ms(-1)], [lifetime]),
        ([:], [coins, lifetime, shared]),
      ]
      let outcomes = try await apple.run(
        filters.map { Operation(do: "get_transaction_history", id: coins, request: $0.0) })
      for ((filter, expected), outcome) in zip(filters, outcomes) {
        #expect(try Set(Self.ids(in: outcome.value, store)) == expected, "\(filter)")
      }
    }
  }

  @Test func `each wrong parameter of the transaction history has its own error`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let id = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.coins)).transactionID
      let wrong: [(JSON, String)] = [
        (["sort": "SIDEWAYS"], "INVALID_SORT"), (["productType": "CAR"], "INVALID_PRODUCT_TYPE"),
        (["inAppOwnershipType": "STOLEN"], "INVALID_IN_APP_OWNERSHIP_TYPE"),
        (["revoked": "maybe"], "INVALID_REVOKED"), (["startDate": "+5"], "INVALID_START_DATE"),
        (["endDate": "tomorrow"], "INVALID_END_DATE"), (["productId": ""], "INVALID_PRODUCT_ID"),
        (["subscriptionGroupIdentifier": ""], "INVALID_SUBSCRIPTION_GROUP_IDENTIFIER"),
        (["startDate": "2", "endDate": "2"], "START_DATE_AFTER_END_DATE"),
      ]
      var operations = wrong.map { request, _ in
        Operation(do: "get", path: "/inApps/v2/history/\(id)", request: request)
      }
      operations.append(
        Operation(do: "get", path: "/inApps/v1/subscriptions/\(id)", request: ["status": "6"]))
      let outcomes = try await apple.run(operations)
      #expect(outcomes.map(\.error?.name) == wrong.map(\.1) + ["INVALID_STATUS"])
    }
  }

  @Test func `Apple's Python client looks up an order and filters subscription statuses`() async throws {
    try await AppleLibraryTests.withServer { store, apple in
      let bought = try store.buy(
        PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "ann"))
      let sandboxed = try store.buy(
        PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.lifetime), in: .sandbox)
      let shared = try store.buy(
        PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.family, ownership: .familyShared))
      let order = try #require(bought.orderID)
      let sandboxOrder = try #require(sandboxed.orderID)
      #expect(shared.orderID == nil)
      let outcomes = try await apple.run([
        Operation(do: "look_up_order_id", id: order),
        Operation(do: "look_up_order_id", environment: "Sandbox", id: sandboxOrder),
        Operation(do: "look_up_order_id", id: sandboxOrder),
        Operation(do: "look_up_order_id", id: "nonsense"),
        Operation(do: "look_up_order_id", id: "MZZZZZZZZZZ"),
        Operation(do: "get_all_subscription_statuses", id: bought.transactionID, status: [1, 4]),
        Operation(do: "get_all_subscription_statuses", id: bought.transactionID, status: [2, 5]),
      ])
      #expect(outcomes.compactMap(\.error).isEmpty)
      #expect(outcomes[0].value?["status"]?.number == 0)
      #expect(try Self.ids(in: outcomes[0].value, store) == [bought.transactionID])
      #expect(try Self.ids(in: outcomes[1].value, store) == [sandboxed.transactionID])
      #expect(outcomes[2...4].map { $0.value?["status"]?.number } == [1, 1, 1])
      #expect(outcomes[5].value?["data"]?[0]?["lastTransactions"]?.array?.count == 1)
      #expect(outcomes[6].value?["data"]?.array == [])
    }
  }

  @Test func `the next page of a history includes transactions modified in between`() throws {
    var store = Climb.store()
    var ids: [String] = []
    for day in 0..<5 {
      ids.append(try store.buy(Climb.coins, account: "ann", at: .day(Double(day))).originalTransactionID)
    }
    func page(after position: HistoryPosition?) throws -> HistoryPage {
      let history = store.history(ofCustomerWith: ids[0], in: Climb.bundleID, at: .day(10))
      return HistoryPage(of: try #require(history), after: position, try HistoryFilter(Query()), length: 3)
    }
    let first = try page(after: nil)
    #expect(first.records.map(\.transaction.transactionId) == Array(ids.prefix(3)))
    #expect(first.hasMore)
    _ = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: ids[0],
      at: .day(6))
    let second = try page(after: HistoryPosition(first.revision))
    #expect(second.records.map(\.transaction.transactionId) == [ids[3], ids[4], ids[0]])
    #expect(!second.hasMore)
    let third = try page(after: HistoryPosition(second.revision))
    #expect(third.records.isEmpty)
    #expect(third.revision == second.revision)
  }

  @Test func `an order id encodes a transaction id, and other texts are refused`() throws {
    for id in ["100000000000001", "899999999999999", "2000000000000001", "2799999999999999"] {
      let text = try #require(OrderID(transactionID: id).text)
      #expect(text.count == 11)
      #expect(OrderID(text)?.transactionID == id)
    }
    for text in ["", "M", "X0000000001", "M00000000001", "M000000000a", "M000000000-"] {
      #expect(OrderID(text) == nil, "\(text)")
    }
  }
}
