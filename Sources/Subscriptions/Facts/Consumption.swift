import Foundation

extension TransactionFact {
  /// The part of a purchase's time that has passed, from 0 to 1.
  ///
  /// - Parameter accessDays: how long a purchase without an expiry of its own gives access; nil for no end.
  /// - Returns: nil for a purchase without an end, such as a lifetime unlock.
  public func consumedShare(at instant: Date, accessDays: Int?) -> Double? {
    let end = expiresDate ?? accessDays.map { purchaseDate.addingTimeInterval(TimeInterval($0) * 86_400) }
    guard let end else { return nil }
    let length = end.timeIntervalSince(purchaseDate)
    guard length > 0 else { return 1 }
    return min(max(instant.timeIntervalSince(purchaseDate) / length, 0), 1)
  }
}
