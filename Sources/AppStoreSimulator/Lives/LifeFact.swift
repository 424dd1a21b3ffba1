import AppStore
import FoundationEssentials

/// Something that the store signed in the course of a life, before signing.
public enum LifeFact: Hashable, Sendable {
  /// A transaction as it stood when it was signed.
  case transaction(TransactionInfo)
  /// A renewal info.
  case renewal(RenewalInfo)

  /// The purchase that it is about.
  public var originalTransactionID: String {
    switch self {
    case .transaction(let transaction): transaction.originalTransactionId
    case .renewal(let renewal): renewal.originalTransactionId
    }
  }

  /// When it was signed.
  public var signedDate: Date {
    switch self {
    case .transaction(let transaction): transaction.signedDate
    case .renewal(let renewal): renewal.signedDate
    }
  }
}

extension StoreNotification {
  /// The facts that the notification carries about a purchase.
  public var facts: [LifeFact] {
    (transaction.map { [.transaction($0)] } ?? []) + (renewalInfo.map { [.renewal($0)] } ?? [])
  }
}

/// Something that happened in a life.
public struct LifeEvent: Sendable {
  /// When.
  public let at: Date
  /// What, for a person.
  public let what: String
  /// What the store sent because of it, in order.
  public let notifications: [StoreNotification]
  /// What was true of each purchase right after it.
  public let truths: [PurchaseTruth]
}
