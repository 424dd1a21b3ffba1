import AppStore
import Foundation

extension RandomLife {
  /// Passes time: none, some, or until about an instant at which the state changes by itself.
  mutating func pass() {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<20: break
    case 20..<35: advance(to: end + Double.random(in: 0..<3600, using: &random))
    case 35..<50: advance(to: end + Double.random(in: 0..<(20 * 86_400), using: &random))
    default: passToBoundary()
    }
  }

  private mutating func passToBoundary() {
    let boundaries =
      purchases.compactMap { store.truth(of: $0, at: end) }.flatMap(Self.boundaries)
      .filter { $0 >= end }.sorted()
    // Mostly the nearest one, so that renewals come in time.
    guard let boundary = chance(80) ? boundaries.first : boundaries.randomElement(using: &random) else {
      return advance(to: end + Double.random(in: 0..<(40 * 86_400), using: &random))
    }
    switch Int.random(in: 0..<6, using: &random) {
    case 0: advance(to: boundary - 0.001)
    case 1: advance(to: boundary + 0.001)
    case 2: advance(to: boundary + Double.random(in: 0..<86_400, using: &random))
    // The App Store charges up to a day ahead.
    case 3, 4: advance(to: boundary - Double.random(in: 0...86_400, using: &random))
    default: advance(to: boundary)
    }
  }

  private static func boundaries(of truth: PurchaseTruth) -> [Date] {
    guard let expiresDate = truth.expiresDate else { return [] }
    return [truth.purchaseDate, expiresDate, expiresDate + 60 * 86_400]
      + (truth.gracePeriodExpiresDate.map { [$0] } ?? [])
  }
}
