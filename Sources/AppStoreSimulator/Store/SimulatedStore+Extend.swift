import AppStore
import Foundation

extension SimulatedStore {
  /// Extends one subscription by the rules of the App Store Server API: `RENEWAL_EXTENDED`.
  mutating func extend(
    _ id: String, in bundleID: String, days: Int, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    guard let subscription = subscriptions[id], subscription.bundleID == bundleID else {
      throw .serverAPI(.originalTransactionIdNotFound)
    }
    let current = try current(of: subscription)
    if current.inAppOwnershipType == .familyShared {
      throw .serverAPI(.familySharedSubscriptionExtensionIneligible)
    }
    guard try status(of: subscription, at: now) == .active, current.offerDiscountType != .freeTrial,
      subscription.billing == .settled
    else { throw .serverAPI(.subscriptionExtensionIneligible) }
    let withinYear = subscription.extensionDates.filter {
      timeScale.date($0, adding: StorePeriod(365, .day)) > now
    }
    guard withinYear.count < 2 else { throw .serverAPI(.subscriptionMaxExtension) }
    let outcome = try perform(.extend(days: days), on: id, at: now)
    subscriptions[id]?.extensionDates.append(now)
    return outcome
  }

  /// Extends every active subscription of a product: `RENEWAL_EXTENDED` for each, `RENEWAL_EXTENSION` with
  /// `FAILURE` for each that cannot be extended, and `RENEWAL_EXTENSION` with `SUMMARY` at the end.
  ///
  /// - Returns: the notifications; none for a request identifier that was used before.
  mutating func extendAll(
    _ request: MassExtendRenewalDateRequest, in bundleID: String, at now: Date
  ) throws(StoreRefusal) -> [StoreNotification] {
    let (product, identifier) = (request.productId, request.requestIdentifier)
    guard massExtension(of: product, identifier, in: bundleID) == nil else { return [] }
    var summary = NotificationSummary(environment: environment, bundleId: bundleID)
    summary.productId = product
    summary.requestIdentifier = identifier
    summary.storefrontCountryCodes = request.storefrontCountryCodes
    var (succeeded, failed) = (Int64(0), Int64(0))
    var sent: [StoreNotification] = []
    // Sorted, so that one seed always gives the same notifications.
    for id in subscriptions.keys.sorted() where try isActive(id, in: bundleID, for: request, at: now) {
      do throws(StoreRefusal) {
        let outcome = try extend(id, in: bundleID, days: Int(request.extendByDays), at: now)
        succeeded += 1
        sent += [outcome.notification] + outcome.others
      } catch .serverAPI {
        failed += 1
        sent.append(try perform(.failToExtend, on: id, at: now).notification)
      }
    }
    summary.succeededCount = succeeded
    summary.failedCount = failed
    return sent + [try summarizeExtension(summary, bundleID: bundleID, at: now)]
  }

  /// The notification at the end of a mass extension; nil for an unknown one.
  func massExtension(
    of productID: String, _ requestIdentifier: String, in bundleID: String
  ) -> StoreNotification? {
    notifications.first {
      $0.bundleID == bundleID && $0.summary?.productId == productID
        && $0.summary?.requestIdentifier == requestIdentifier
    }
  }

  /// Whether a mass extension applies to a subscription. A family member's is extended with the purchaser's.
  private func isActive(
    _ id: String, in bundleID: String, for request: MassExtendRenewalDateRequest, at now: Date
  ) throws(StoreRefusal) -> Bool {
    let subscription = try subscription(id)
    let current = try current(of: subscription)
    guard current.bundleId == bundleID, current.productId == request.productId,
      current.inAppOwnershipType != .familyShared,
      try status(of: subscription, at: now) == .active
    else { return false }
    guard let storefronts = request.storefrontCountryCodes else { return true }
    return current.storefront.map(storefronts.contains) ?? false
  }
}
