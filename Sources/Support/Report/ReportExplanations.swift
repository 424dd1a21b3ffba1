import Customers
import Foundation
import Postgres
import Subscriptions
import Text

extension Entitlements {
  /// Why access is granted or denied, in a sentence for support.
  /// - Parameters:
  ///   - notes: why some of the customer's records are not counted.
  ///   - past: the purchase or grant that a customer without records had before.
  ///   - plans: of the customer's purchases, by `originalTransactionID`.
  func explanation(
    notes: [String], past: PastAccess?, plans: [String: PurchasePlan], at instant: Date
  ) -> String {
    switch source {
    case .subscription(let subscription):
      let plan = plans[subscription.current.originalTransactionID]
      return subscription.explanation(
        isOpen: isAccessGranted, accessEnds: plan?.accessEndsAt, endReason: plan?.endReason, at: instant)
    case .grant(let grant):
      return "the grant \(grant.id.uuidString.lowercased()) is active"
    case .trial(let trial):
      let name = "the trial from \(trial.startedAt.rfc3339)"
      guard isAccessGranted else { return "\(name) has ended" }
      return status == .grace ? "\(name) has ended; the app's own grace applies" : "\(name) is active"
    case .freeAccess: return "free access is on: the app is open to everyone"
    case nil:
      guard let note = notes.first else {
        return past?.sentence ?? "the customer has no purchase, grant or trial"
      }
      return "a record of the customer is not counted: \(note)"
    }
  }
}

extension Entitlements {
  /// The `originalTransactionID` of the purchase that decides; `nil` for another source, or none.
  var purchase: String? {
    guard case .subscription(let subscription) = source else { return nil }
    return subscription.current.originalTransactionID
  }
}

extension Subscription {
  /// - Parameters:
  ///   - accessEnds: ``PurchasePlan/accessEndsAt``.
  ///   - endReason: ``PurchasePlan/endReason``.
  fileprivate func explanation(
    isOpen: Bool, accessEnds: Date?, endReason: String?, at instant: Date
  ) -> String {
    let name = "the purchase \(current.originalTransactionID)"
    let phase = phase(at: instant)
    if let revoked = current.revocationDate, current.ownership == "FAMILY_SHARED" {
      return "\(name) is no longer shared by the family since \(revoked.rfc3339)"
    }
    if let revoked = current.revocationDate { return "\(name) was refunded or revoked at \(revoked.rfc3339)" }
    switch (phase.status, phase.storeStatus) {
    case (.grace, .billingGrace): return "\(name) could not be charged and is in Apple's billing grace"
    case (.grace, _): return "\(name) has ended; the app's own grace applies"
    case (_, .billingRetry):
      let until = chargeRetriesEnd(at: instant).map { " until \(Day(of: $0))" } ?? ""
      return "\(name) could not be charged; Apple retries\(until)"
    case (.active, _) where isOpen:
      guard current.expiresDate != nil else { return "\(name) does not expire" }
      guard let retries = chargeRetriesEnd(at: instant) else { return "\(name) is active" }
      return "\(name) is active; Apple could not charge the next period and retries until \(Day(of: retries))"
    default:
      let end = storeAccessEnds
      let access = accessEnds.flatMap { $0 == end ? nil : ", and access at \($0.rfc3339)" } ?? ""
      return "\(name) ended at \(end?.rfc3339 ?? "?")\(access)\(endReason.map { " (\($0))" } ?? "")"
    }
  }
}

extension ReportedCustomer {
  /// When the paid time or the trial ends, when access ends, and what follows, each in a sentence; empty without
  /// access.
  /// - Parameter words: writes an instant.
  package func headSentences(at now: Date, _ words: (Date) -> String) -> [String] {
    guard entitlements.isAccessGranted else { return [] }
    let purchase = purchases.first { $0.originalTransactionID == decidingPurchase }
    var sentences: [String] = []
    var (end, access): (Date?, Date?) = (nil, nil)
    if let purchase {
      (end, access) = (purchase.expiryDate, purchase.plan.accessEndsAt ?? purchase.expiryDate)
      let renewal =
        if purchase.chargeRetriesUntil != nil {
          "Apple could not charge the next period"
        } else if purchase.willRenew {
          "it renews then"
        } else {
          "it does not renew"
        }
      if let end { sentences.append("\(end > now ? "Paid" : "Was paid") until \(words(end)); \(renewal).") }
    } else if ["trial", "grace"].contains(entitlements.status), let trial, let trialEnd = trial.endsAt {
      (end, access) = (trialEnd, accessUntil)
      sentences.append("The trial \(trialEnd > now ? "ends" : "ended") \(words(trialEnd)).")
    }
    if let end, let access, access > end {
      sentences.append("With grace, access ends \(words(access)) if nothing new is paid.")
    }
    if access == nil || access != accessUntil {
      let last = accessUntil.map { "until \(words($0))" } ?? "without end"
      sentences.append(
        end == nil
          ? "Access \(last)." : "With all that opens access, such as other purchases and grants: \(last).")
    }
    if let next = purchase?.next, next.tier != purchase?.tier {
      sentences.append(
        "Then comes the tier \(next.tier ?? "that the catalog does not know"): \(next.productID) from "
          + "\(words(next.startsAt)).")
      if let change = childrenChange { sentences.append(change) }
    }
    return sentences
  }
}

extension ReportedCustomer {
  /// Which children's devices a smaller tier, which follows, leaves open: those that were paired first. `nil` where all
  /// stay open.
  package var childrenChange: String? {
    let purchase = purchases.first { $0.originalTransactionID == decidingPurchase }
    guard let limit = purchase?.next?.childLimit, limit < children.count + childrenHidden else { return nil }
    func names(_ children: some Collection<ReportedChild>) -> String {
      children.map { $0.name ?? $0.childDeviceID }.joined(separator: ", ")
    }
    let (kept, paused) = (children.prefix(limit), children.dropFirst(limit))
    guard !kept.isEmpty else { return "It opens no child's device." }
    let others = paused.isEmpty ? "" : "; \(names(paused)) \(paused.count == 1 ? "is" : "are") paused"
    return
      "Of the children's devices, \(names(kept)) \(kept.count == 1 ? "stays" : "stay") open then\(others)."
  }
}

/// What a customer without any record of access had before: a purchase that another customer has now, or a grant.
struct PastAccess: Sendable {
  var at: Date
  var sentence: String

  /// The last purchase of an app that went from this customer to another one.
  static func lastMove(from customer: Customer, bundleID: String) -> Query {
    """
    SELECT at, original_transaction_id, to_customer, by, reason FROM support_actions
    WHERE from_customer = \(customer.id) AND customer_kind = \(customer.kindWord) AND bundle_id = \(bundleID)
      AND original_transaction_id IS NOT NULL AND to_customer <> from_customer
    ORDER BY at DESC, id DESC LIMIT 1
    """
  }

  /// Decodes a row of ``lastMove(from:bundleID:)``.
  init(move row: Row) throws {
    at = try row.decode("at")
    let (purchase, owner): (String, String) = (
      try row.decode("original_transaction_id"), try row.decode("to_customer")
    )
    let (author, reason): (String, String) = (try row.decode("by"), try row.decode("reason"))
    sentence = "the purchase \(purchase) moved to \(owner) at \(at.rfc3339) (\(author): \(reason))"
  }

  /// - Returns: `nil` for a grant that has not ended.
  init?(_ stored: StoredGrant, at instant: Date) {
    let name = "the grant \(stored.grant.id.uuidString.lowercased())"
    if let revokedAt = stored.revokedAt {
      at = revokedAt
      sentence = "\(name) was revoked at \(revokedAt.rfc3339) by \(stored.revokedBy ?? "?")"
    } else if let end = stored.grant.endsAt, end <= instant {
      at = end
      sentence = "\(name) ended at \(end.rfc3339)"
    } else {
      return nil
    }
  }
}
