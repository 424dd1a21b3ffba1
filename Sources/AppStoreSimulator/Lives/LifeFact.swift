import AppStore
import Foundation

/// A fact of a life before signing.
public enum LifeFact: Hashable, Sendable {
  /// The state of a transaction at the time of signing.
  case transaction(TransactionInfo)
  /// A renewal info.
  case renewal(RenewalInfo)

  /// The purchase.
  public var originalTransactionID: String {
    switch self {
    case .transaction(let transaction): transaction.originalTransactionId
    case .renewal(let renewal): renewal.originalTransactionId
    }
  }

  /// The time of signing.
  public var signedDate: Date {
    switch self {
    case .transaction(let transaction): transaction.signedDate
    case .renewal(let renewal): renewal.signedDate
    }
  }
}

extension StoreNotification {
  /// The facts about a purchase in the notification.
  public var facts: [LifeFact] {
    (transaction.map { [.transaction($0)] } ?? []) + (renewalInfo.map { [.renewal($0)] } ?? [])
  }
}

/// An event of a life.
public struct LifeEvent: Sendable {
  /// The time.
  public let at: Date
  /// The description.
  public let what: String
  /// The notifications in order.
  public let notifications: [StoreNotification]
  /// The true state of each purchase after the event.
  public let truths: [PurchaseTruth]
}
