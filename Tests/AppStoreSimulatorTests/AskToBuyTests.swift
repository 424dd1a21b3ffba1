import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct AskToBuyTests {
  private let request = PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly)

  @Test func `an Ask to Buy request becomes a purchase when it is approved`() throws {
    var store = Climb.store()
    let id = try store.ask(request)
    #expect(store.transactions.isEmpty)
    #expect(store.notifications.isEmpty)
    let outcome = try store.approve(id, at: .day(2))
    #expect(outcome.transaction.purchaseDate == .day(2))
    #expect(outcome.notification.type == .subscribed)
    #expect(throws: StoreRefusal.unknownRequest(id)) { _ = try store.approve(id, at: .day(3)) }
  }

  @Test func `a declined Ask to Buy request makes no purchase and can be repeated`() throws {
    var store = Climb.store()
    let id = try store.ask(request)
    try store.decline(id)
    #expect(store.notifications.isEmpty)
    #expect(throws: StoreRefusal.unknownRequest(id)) { _ = try store.approve(id, at: .day(1)) }
    #expect(throws: StoreRefusal.unknownRequest(id)) { try store.decline(id) }
    _ = try store.approve(try store.ask(request), at: .day(1))
    #expect(store.transactions.count == 1)
  }

  @Test func `Ask to Buy refuses a product that is not for sale`() {
    var store = Climb.store()
    #expect(throws: StoreRefusal.unknownProduct("unheard")) {
      _ = try store.ask(PurchaseRequest(bundleID: Climb.bundleID, productID: "unheard"))
    }
  }
}
