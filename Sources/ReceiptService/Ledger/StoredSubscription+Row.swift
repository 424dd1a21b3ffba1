import FoundationEssentials
import Subscriptions

extension StoredSubscription {
  /// What ``SubscriptionRows`` reads back of it where it is written at `instant`: a row has less of the current
  /// transaction than the transaction's own, and names the product that is open as the catalog does.
  ///
  /// Whoever is answered from what was just written and whoever asks later are told the same.
  func asRow(at instant: Date) -> StoredSubscription {
    var current = subscription.current
    current.productID = subscription.productID(at: instant)
    current.originalPurchaseDate = nil
    current.isUpgraded = false
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
