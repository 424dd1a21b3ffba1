import Foundation
import Subscriptions

/// The events that time causes: they follow from the phases of the purchase at the entry's instant.
extension PurchaseChange {
  /// For how long a renewal that the App Store intends may be late before the purchase is said to have ended.
  static let renewalDelay: TimeInterval = 86_400

  var timeEvents: [LifecycleEvent] {
    let instant = entry.instant
    guard current.revocationDate == nil, let paidUntil = current.expiresDate, paidUntil <= instant,
      hasEnded(paidUntil, at: instant)
    else { return [] }
    let phase = subscription.phase(at: instant)
    let accessEnd = subscription.phases.first { $0.status == .expired }?.startsAt
    switch phase.status {
    case .grace: return graceEvents(after: paidUntil, until: accessEnd)
    case .expired:
      return [expiry(paidUntil, accessEnd: accessEnd ?? paidUntil)]
    case .active, .trial, .cancelled: return []
    }
  }

  /// Whether the period is known to be the last: the renewal is off, or a charge failed. Without such a fact the renewal is
  /// probably late, and for a day no end is told.
  private func hasEnded(_ paidUntil: Date, at instant: Date) -> Bool {
    let phase = subscription.phase(at: instant)
    if !subscription.autoRenewEnabled || phase.storeStatus != .expired { return true }
    if let renewal = after.renewal, renewal.expirationIntent != nil, renewal.signedAt >= current.purchaseDate
    {
      return true
    }
    return paidUntil + Self.renewalDelay <= instant
  }

  private func graceEvents(after paidUntil: Date, until accessEnd: Date?) -> [LifecycleEvent] {
    let details = EventDetails(
      grace: EventDetails.Grace(
        source: subscription.graceExpiresDate == nil ? "app" : "appStore", endsAt: accessEnd))
    var started = event(.graceStarted, occasion: [paidUntil.occasion], at: paidUntil, details)
    started.periodEnd = paidUntil
    guard let accessEnd else { return [started] }
    let reminderAt = max(paidUntil, accessEnd - TimeInterval(app.reminders.graceEndingDays) * 86_400)
    guard reminderAt <= entry.instant else { return [started] }
    var ending = event(.graceEnding, occasion: [accessEnd.occasion], at: reminderAt, details)
    ending.periodEnd = accessEnd
    return [started, ending]
  }

  private func expiry(_ paidUntil: Date, accessEnd: Date) -> LifecycleEvent {
    let renewal = after.renewal.flatMap { $0.signedAt >= current.purchaseDate ? $0 : nil }
    let reason: String? =
      if current.kind != .autoRenewable {
        nil
      } else if subscription.phases.contains(where: { $0.storeStatus == .billingRetry }) {
        "billing_error"
      } else {
        renewal.flatMap { $0.willAutoRenew == false || $0.expirationIntent != nil ? $0.reasonWord : nil }
      }
    var event = event(
      .expired, occasion: [paidUntil.occasion], at: accessEnd, EventDetails(reason: reason))
    event.periodEnd = paidUntil
    return event
  }
}
