import AppStore
import Foundation

@testable import AppStoreSimulator

/// The app of most tests.
enum Climb {
  static let bundleID = "com.example.climb"
  static let monthly = "climb.monthly"
  static let annual = "climb.annual"
  static let family = "climb.family.monthly"
  static let lifetime = "climb.lifetime"
  static let coins = "climb.coins"

  static let app = StoreApp(
    bundleID: bundleID, appAppleID: 1_500_000_001,
    products: [
      .subscription(monthly, price: 4990),
      .subscription(annual, period: .year, price: 49_990),
      .subscription(family, rank: 2, price: 12_990, isFamilyShareable: true),
      .oneTime(lifetime), .oneTime(coins, type: .consumable, price: 1990),
    ])

  /// 2026-01-01T00:00:00Z.
  static let start = Date(timeIntervalSince1970: 1_767_225_600)

  static func store(
    _ environment: Environment = .production, seed: UInt64 = 1, app: StoreApp = app
  ) -> SimulatedStore {
    SimulatedStore(environment: environment, apps: [app], seed: seed)
  }
}

extension Date {
  static func day(_ days: Double) -> Date { Climb.start + days * 86_400 }
  static let millisecond: TimeInterval = 0.001
}

extension SimulatedStore {
  mutating func buy(_ productID: String, account: String? = nil, at now: Date) throws -> StoreOutcome {
    try buy(PurchaseRequest(bundleID: Climb.bundleID, productID: productID, accountID: account), at: now)
  }

  func status(of id: String, at now: Date) -> SubscriptionStatus? { truth(of: id, at: now)?.status }
}
