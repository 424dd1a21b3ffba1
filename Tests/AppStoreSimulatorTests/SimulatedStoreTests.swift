import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct SimulatedStoreTests {
  @Test func `signed dates increase even if the clock stands still or goes back`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: .day(1)).originalTransactionID
    for _ in 0..<3 { _ = try store.perform(.setAutoRenew(true), on: id, at: .day(1)) }
    _ = try store.perform(.setAutoRenew(false), on: id, at: .day(0))
    let dates = store.notifications.map(\.signedDate)
    #expect(zip(dates, dates.dropFirst()).allSatisfy { $0 < $1 })
    #expect(dates.last == (Date.day(1) + 0.004).wholeMilliseconds)
  }

  @Test func `the same seed gives the same notifications, and another seed other ids`() throws {
    func life(_ seed: UInt64) throws -> [StoreNotification] {
      var store = Climb.store(seed: seed)
      let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
      _ = try store.perform(.renew, on: id, at: .day(31))
      _ = try store.test(bundleID: Climb.bundleID, at: .day(32))
      return store.notifications
    }
    #expect(try life(7) == life(7))
    #expect(try Set(life(7).map(\.uuid)).isDisjoint(with: life(8).map(\.uuid)))
  }

  @Test func `production and sandbox never generate the same id`() throws {
    var production = Climb.store(.production)
    var sandbox = Climb.store(.sandbox)
    let real = try production.buy(Climb.monthly, at: Climb.start)
    let test = try sandbox.buy(Climb.monthly, at: Climb.start)
    #expect(real.transaction.transactionId.count == 15)
    #expect(test.transaction.transactionId.count == 16)
    #expect(test.transaction.environment == .sandbox)
    #expect(test.notification.environment == .sandbox)
    #expect(test.notification.uuid != real.notification.uuid)
    #expect(test.transaction.appTransactionId != real.transaction.appTransactionId)
  }

  @Test func `a TEST notification has its app's bundle id and no transaction`() throws {
    var store = Climb.store()
    let notification = try store.test(bundleID: Climb.bundleID, at: Climb.start)
    #expect(notification.type == .test)
    #expect(notification.bundleID == Climb.bundleID)
    #expect(notification.transaction == nil)
    #expect(notification.renewalInfo == nil)
    #expect(store.notifications == [notification])
  }

  @Test func `a shorter month shortens days and years in proportion`() throws {
    var store = SimulatedStore(
      environment: .sandbox, apps: [Climb.app], timeScale: TimeScale(monthSeconds: 6), seed: 1)
    let monthly = try store.buy(Climb.monthly, at: Climb.start)
    let annual = try store.buy(Climb.annual, at: Climb.start)
    #expect(monthly.transaction.expiresDate == Climb.start + 6)
    #expect(annual.transaction.expiresDate == Climb.start + 72)
    let failed = try store.perform(
      .failToRenew(grace: true), on: monthly.originalTransactionID, at: Climb.start + 6)
    #expect(failed.renewalInfo?.gracePeriodExpiresDate == (Climb.start + 9.2).wholeMilliseconds)
  }

  @Test func `a subscription period is parsed only in ISO 8601`() {
    #expect(StorePeriod("P1M") == .month)
    #expect(StorePeriod("P3D") == StorePeriod(3, .day))
    #expect(StorePeriod("P10Y")?.text == "P10Y")
    for text in ["", "P", "PM", "1M", "P1", "P+1M", "P-1M", "P1m", "P1H", "P1M ", "P0M", "P99999M", "P1.5M"] {
      #expect(StorePeriod(text) == nil, "\(text)")
    }
  }

  @Test func `the store finds a customer by any of its transactions, and only in its app`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, account: "ann", at: Climb.start)
    let renewed = try store.perform(.renew, on: bought.originalTransactionID, at: .day(31))
    let lifetime = try store.buy(Climb.lifetime, account: "ann", at: .day(40))
    _ = try store.buy(Climb.monthly, account: "ben", at: .day(41))

    for id in [
      bought.transaction.transactionId, renewed.transaction.transactionId,
      lifetime.transaction.transactionId, try #require(bought.transaction.appTransactionId),
    ] {
      let states = try store.subscriptions(ofCustomerWith: id, in: Climb.bundleID, at: .day(42))
      #expect(states?.map(\.transaction.transactionId) == [renewed.transaction.transactionId])
      #expect(states?.first?.status == .active)
      let history = store.history(ofCustomerWith: id, in: Climb.bundleID, at: .day(42))
      #expect(
        history?.map(\.transaction.transactionId) == [
          bought.transaction.transactionId, renewed.transaction.transactionId,
          lifetime.transaction.transactionId,
        ])
    }
    let id = bought.originalTransactionID
    #expect(try store.subscriptions(ofCustomerWith: id, in: "com.example.other", at: .day(42)) == nil)
    #expect(store.signable(id, of: "com.example.other", at: .day(42)) == nil)
    #expect(store.history(ofCustomerWith: "123", in: Climb.bundleID, at: .day(42)) == nil)
  }

  @Test func `a refused command does not change the store`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let before = store.truth(of: id, at: .day(1))
    for command in [
      SubscriptionCommand.recover, .endGrace, .expire(nil), .revoke, .acceptPrice,
      .reverseRefund(transactionID: nil), .changeProduct("nothing"), .changeProduct(Climb.coins),
    ] {
      #expect(throws: StoreRefusal.self) { try store.perform(command, on: id, at: .day(1)) }
    }
    #expect(store.truth(of: id, at: .day(1)) == before)
    #expect(store.notifications.count == 1)
    #expect(throws: StoreRefusal.unknownTransaction("1")) { try store.perform(.renew, on: "1", at: .day(1)) }
  }
}
