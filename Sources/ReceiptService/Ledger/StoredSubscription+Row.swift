import FoundationEssentials
import Subscriptions

extension StoredSubscription {
  /// The value that ``SubscriptionRows`` reads back after writing this one at `instant`. A row has fewer columns than the
  /// current transaction, and its product is the one that is open at `instant`.
  ///
  /// So a response right after the write says the same as a later one.
  func asRow(at instant: Date) -> StoredSubscription {
    var current = subscription.current
    current.productID = subscription.productID(at: instant)
    current.originalPurchaseDate = nil
    current.isUpgraded = false
    current.isFreeOffer = false
    current.appAccountToken = decidedToken
    current.tokenSignedAt = decidedToken == nil ? nil : subscription.signedAt
    current.signedAt = subscription.signedAt
    var meaning = subscription
    meaning.current = current
    meaning.preceding = subscription.preceding(at: instant)
    meaning.customerToken = decidedToken
    var row = self
    row.subscription = meaning
    return row
  }
}
