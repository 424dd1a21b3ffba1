import AppStore
import Foundation
import Postgres
import Subscriptions
import Text

/// The days before today whose KPIs change by a fact that arrives today.
package struct LateFact: Hashable, Sendable {
  package var first: Day
  package var last: Day

  /// The months of a subscription's age that are counted.
  private static let daysOfCohorts = 12 * 31

  /// The days from an instant in the past to today, or `nil` for an instant of today or later.
  package init?(from instant: Date, through last: Date? = nil, at now: Date) {
    first = Day(of: instant)
    let today = Day(of: now)
    guard first < today else { return nil }
    self.last = max(first, min(today, Day(of: last ?? now)))
  }

  /// The days that a new or changed transaction concerns, or `nil` if these are today and later.
  ///
  /// A period that was made longer changes the days after its former end; its part of earlier days' MRR stays.
  package init?(_ fact: TransactionFact, after known: TransactionFact?, at now: Date) {
    guard fact.environment == .production, fact.ownership == "PURCHASED" else { return nil }
    var changes: [Date] = []
    if let known {
      if known.productID != fact.productID || known.priceMilliunits != fact.priceMilliunits
        || known.currency != fact.currency || known.purchaseDate != fact.purchaseDate
      {
        changes += [known.purchaseDate, fact.purchaseDate]
      }
      if known.revocationDate != fact.revocationDate {
        changes += [known.revocationDate, fact.revocationDate].compactMap(\.self)
      }
      if known.expiresDate != fact.expiresDate {
        changes += [known.expiresDate, fact.expiresDate].compactMap(\.self)
      }
    } else {
      changes = [fact.purchaseDate]
    }
    guard let first = changes.min() else { return nil }
    let cohorts = Day(of: fact.purchaseDate).advanced(by: Self.daysOfCohorts).start
    let ends = [known?.expiresDate, fact.expiresDate, fact.revocationDate].compactMap(\.self)
    // A purchase without an end counts until today.
    self.init(
      from: first, through: fact.expiresDate == nil ? nil : ends.reduce(cohorts, max), at: now)
  }

  /// The day of a change of the renewal, or of an end, or `nil` for another notification or one of today.
  package init?(_ notification: KeptNotification) {
    guard notification.environment == Environment.production.rawValue else { return nil }
    let signedAt = notification.signedAt
    switch NotificationType(rawValue: notification.type) {
    case .didChangeRenewalStatus:
      self.init(from: signedAt, through: signedAt, at: notification.receivedAt)
    case .expired, .didFailToRenew:
      // It may be signed up to a day before or after the end that it explains.
      self.init(from: signedAt - 86_400, through: signedAt + 86_400, at: notification.receivedAt)
    default: return nil
    }
  }
}

/// The queries on `kpi_late_facts`.
package enum LateFactRows {
  package static func insert(_ facts: [LateFact]) -> Query {
    """
    INSERT INTO kpi_late_facts (first_day, last_day)
    SELECT first::date, last::date
    FROM unnest(\(facts.map(\.first.description))::text[], \(facts.map(\.last.description))::text[])
      AS late (first, last)
    """
  }
}
