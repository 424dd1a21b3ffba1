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

  @Test func `reads transactions page by page`() async throws {
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
        Operation(do: "get", path: "/inApps/v2/history/\(id)", request: ["sort": "SIDEWAYS"]),
      ])
      #expect(outcomes[0].value?.array?.map { $0["signedTransactions"]?.array?.count } == [20, 5])
      let ascending = try (outcomes[0].value?.array ?? []).flatMap { try Self.ids(in: $0, store) }
      #expect(ascending == Array(bought.suffix(4) + bought.prefix(21)))
      let descending = try (outcomes[1].value?.array ?? []).flatMap { try Self.ids(in: $0, store) }
      #expect(descending == ascending.reversed())
      #expect(
        outcomes[2...].map(\.error?.name) == [
          "INVALID_REQUEST_REVISION", "INVALID_REQUEST_REVISION", "TRANSACTION_ID_NOT_FOUND",
          "INVALID_SORT",
        ])
    }
  }

  @Test func `looks up an order`() async throws {
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
      ])
      #expect(outcomes.compactMap(\.error).isEmpty)
      #expect(outcomes[0].value?["status"]?.number == 0)
      #expect(try Self.ids(in: outcomes[0].value, store) == [bought.transactionID])
      #expect(try Self.ids(in: outcomes[1].value, store) == [sandboxed.transactionID])
      #expect(outcomes[2...4].map { $0.value?["status"]?.number } == [1, 1, 1])
    }
  }

  @Test func `the next page includes transactions modified in between`() throws {
    var store = Climb.store()
    var ids: [String] = []
    for day in 0..<5 {
      ids.append(try store.buy(Climb.coins, account: "ann", at: .day(Double(day))).originalTransactionID)
    }
    func page(after position: HistoryPosition?) throws -> HistoryPage {
      let history = store.history(ofCustomerWith: ids[0], in: Climb.bundleID, at: .day(10))
      return HistoryPage(of: try #require(history), after: position, isDescending: false, length: 3)
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
