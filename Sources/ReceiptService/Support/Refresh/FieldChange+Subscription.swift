import Foundation
import Subscriptions

extension FieldChange {
  /// What differs between two states of a purchase, under the names of the customer report.
  static func changes(
    from before: StoredSubscription?, to after: StoredSubscription?, at instant: Date
  ) -> [FieldChange] {
    let (old, new) = (fields(before, at: instant), fields(after, at: instant))
    return zip(old, new).compactMap { old, new in
      old.value == new.value ? nil : FieldChange(field: new.name, before: old.value, after: new.value)
    }
  }

  private static func fields(
    _ stored: StoredSubscription?, at instant: Date
  ) -> [(name: String, value: String?)] {
    let subscription = stored?.subscription
    let current = subscription?.current
    let phase = subscription?.phase(at: instant)
    return [
      ("status", phase?.status.rawValue), ("storeStatus", phase?.storeStatus.rawValue),
      ("productID", subscription?.productID(at: instant)), ("tier", subscription?.tier(at: instant)),
      ("transactionID", current?.transactionID), ("expiryDate", current?.expiresDate?.rfc3339),
      ("gracePeriodExpiryDate", subscription?.graceExpiresDate?.rfc3339),
      ("revokedAt", current?.revocationDate?.rfc3339),
      ("willRenew", subscription.map { $0.willRenew(at: instant) ? "yes" : "no" }),
      ("renewsAs", subscription?.renewsAs), ("ownership", current?.ownership),
      ("owner", stored?.owner?.customer.id),
    ]
  }
}
