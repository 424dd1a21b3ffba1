import AppStore
import Foundation

/// The extensions by the App Store Server API.
struct RenewalExtensions: Sendable {
  /// The times of extension, oldest first, by original transaction id.
  var dates: [String: [Date]] = [:]
  /// The mass extensions.
  var requests: [Key: MassExtension] = [:]

  struct Key: Hashable, Sendable {
    var bundleID: String
    var productID: String
    var requestIdentifier: String
  }
}

/// The reasons why the App Store Server API does not extend a subscription.
enum ExtensionRefusal: Error, Hashable, Sendable {
  /// The app has no such subscription.
  case notFound
  /// The subscription is a family member's and follows the purchaser's.
  case familyShared
  /// The subscription is not active, is in a free period, or its next charge has failed.
  case ineligible
  /// The subscription was extended twice within a year.
  case tooOften
}

/// An extension of all active subscriptions of a product.
struct MassExtension: Sendable {
  let bundleID: String
  let productID: String
  let requestIdentifier: String
  let days: Int
  /// ISO 3166-1 alpha-3 codes; nil for every storefront.
  let storefronts: [String]?
  var succeeded: Int64 = 0
  var failed: Int64 = 0
  var completeDate: Date?

  var key: RenewalExtensions.Key {
    .init(bundleID: bundleID, productID: productID, requestIdentifier: requestIdentifier)
  }

  /// The content of the last notification.
  var summary: NotificationSummary {
    // The store sets app and environment.
    var summary = NotificationSummary(environment: .production, bundleId: bundleID)
    summary.productId = productID
    summary.requestIdentifier = requestIdentifier
    summary.storefrontCountryCodes = storefronts
    summary.succeededCount = succeeded
    summary.failedCount = failed
    return summary
  }
}

extension SimulatedStore {
  /// Extends one subscription by the rules of the API: `RENEWAL_EXTENDED`.
  mutating func extend(
    _ id: String, in bundleID: String, days: Int, at now: Date
  ) throws(StoreRefusal) -> Result<StoreOutcome, ExtensionRefusal> {
    guard let subscription = subscriptions[id], subscription.bundleID == bundleID else {
      return .failure(.notFound)
    }
    if let refusal = try refusal(toExtend: subscription, at: now) { return .failure(refusal) }
    let outcome = try perform(.extend(days: days), on: id, at: now)
    extensions.dates[id, default: []].append(now)
    return .success(outcome)
  }

  /// Extends every active subscription of a product: `RENEWAL_EXTENDED` for each, `RENEWAL_EXTENSION` with
  /// `FAILURE` for each that cannot be extended, and `RENEWAL_EXTENSION` with `SUMMARY` at the end.
  ///
  /// - Returns: the notifications; none for a request identifier that was used before.
  mutating func extendAll(
    _ request: MassExtension, at now: Date
  ) throws(StoreRefusal) -> [StoreNotification] {
    guard extensions.requests[request.key] == nil else { return [] }
    var request = request
    var sent: [StoreNotification] = []
    // Sorted, so that one seed always gives the same notifications.
    for id in subscriptions.keys.sorted() {
      guard let subscription = subscriptions[id], try includes(subscription, in: request, at: now) else {
        continue
      }
      switch try extend(id, in: request.bundleID, days: request.days, at: now) {
      case .success(let outcome):
        request.succeeded += 1
        sent += [outcome.notification] + outcome.others
      case .failure:
        request.failed += 1
        sent.append(try perform(.failToExtend, on: id, at: now).notification)
      }
    }
    let summary = try summarizeExtension(request.summary, bundleID: request.bundleID, at: now)
    request.completeDate = summary.signedDate
    extensions.requests[request.key] = request
    return sent + [summary]
  }

  private func includes(
    _ subscription: StoreSubscription, in request: MassExtension, at now: Date
  ) throws(StoreRefusal) -> Bool {
    let current = try current(of: subscription)
    // A family member's subscription is extended with the purchaser's.
    guard current.bundleId == request.bundleID, current.productId == request.productID,
      current.inAppOwnershipType != .familyShared,
      try status(of: subscription, at: now) == .active
    else { return false }
    guard let storefronts = request.storefronts else { return true }
    return current.storefront.map(storefronts.contains) ?? false
  }

  private func refusal(
    toExtend subscription: StoreSubscription, at now: Date
  ) throws(StoreRefusal) -> ExtensionRefusal? {
    let current = try current(of: subscription)
    if current.inAppOwnershipType == .familyShared { return .familyShared }
    guard try status(of: subscription, at: now) == .active, current.offerDiscountType != .freeTrial else {
      return .ineligible
    }
    guard subscription.billing == .settled else { return .ineligible }
    let withinYear = (extensions.dates[subscription.originalTransactionID] ?? [])
      .filter { timeScale.date($0, adding: StorePeriod(365, .day)) > now }
    return withinYear.count < 2 ? nil : .tooOften
  }
}
