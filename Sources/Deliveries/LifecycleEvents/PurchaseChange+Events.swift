import AppStore
import Customers
import Foundation
import Ledger
import Subscriptions

/// The lifecycle events of what an entry of the ledger changed about a purchase.
///
/// The events follow from signed facts and, for those that time causes, from the entry's instant. An event about a
/// state (a failed charge, a cancellation, an end) needs that state to be the present one, so that an old fact that
/// arrives late tells nothing that is over. An event about a transaction is told whenever the transaction is new.
extension PurchaseChange {
  var subscription: Subscription { stored.subscription }
  var current: TransactionFact { subscription.current }

  /// The events, in the order in which they occurred. A cause that is met again gives an event with the same id.
  var events: [LifecycleEvent] {
    let standing = entry.transactions.isEmpty ? [] : after.standing
    var events =
      entry.transactions.flatMap { transactionEvents($0, among: standing) } + renewalInfoEvents + timeEvents
      + transferEvents
    let oldest = entry.instant - LifecycleEvent.lifetime
    events.removeAll { $0.occurredAt < oldest }
    return events
  }

  // MARK: An event

  /// An event about this purchase.
  /// - Parameter transaction: the transaction that it is about; `nil` for the current one.
  func event(
    _ type: LifecycleEventType, about transaction: TransactionFact? = nil, occasion: [String],
    at instant: Date,
    _ details: EventDetails = EventDetails()
  ) -> LifecycleEvent {
    var details = details
    details.subscription = SubscriptionResponse(subscription, at: entry.instant)
    if let transaction {
      details.transaction = EventDetails.Transaction(
        fact: transaction, productID: app.canonicalProductID(transaction.productID) ?? transaction.productID)
    }
    return LifecycleEvent(
      type: type, bundleID: app.bundleID, environment: current.environment.rawValue,
      subject: .purchase(
        originalTransactionID: current.originalTransactionID,
        transactionID: (transaction ?? current).transactionID),
      occasion: occasion, customer: stored.owner?.customer, occurredAt: instant,
      checksDevices: app.limitsDevices && type.mayPauseDevices, data: details.bytes)
  }

  // MARK: Renewal info

  private var renewalInfoEvents: [LifecycleEvent] {
    guard let record = entry.renewals.first else { return [] }
    var events = priceEvents(record)
    guard let renewal = after.renewal, renewal != before.renewal else { return events }
    if let cancellation = cancellation(renewal) { events.append(cancellation) }
    if let issue = billingIssue(renewal) { events.append(issue) }
    return events
  }

  /// The automatic renewal is off now and was on, or the App Store says that it was turned off. A first renewal info
  /// that is off tells nothing new: the customer may have cancelled long ago.
  private func cancellation(_ renewal: RenewalFact) -> LifecycleEvent? {
    guard renewal.willAutoRenew == false, renewal.signedAt >= current.purchaseDate else { return nil }
    // A family member whose sharing ended has cancelled nothing.
    if current.revocationDate != nil, current.ownership != "PURCHASED" { return nil }
    let isNotified =
      entry.notification?.type == NotificationType.didChangeRenewalStatus.rawValue
      && entry.notification?.subtype == Subtype.autoRenewDisabled.rawValue
    guard before.renewal?.willAutoRenew == true || (before.renewal?.willAutoRenew == nil && isNotified) else {
      return nil
    }
    return event(
      .cancelled, occasion: [renewal.signedAt.occasion], at: renewal.signedAt,
      EventDetails(reason: current.revocationDate == nil ? renewal.reasonWord : "refund"))
  }

  /// A charge for the period after the current one failed.
  private func billingIssue(_ renewal: RenewalFact) -> LifecycleEvent? {
    guard let paidUntil = current.expiresDate,
      subscription.phases.contains(where: {
        $0.storeStatus == .billingRetry || $0.storeStatus == .billingGrace
      })
    else { return nil }
    return event(.billingIssue, occasion: [paidUntil.occasion], at: min(paidUntil, renewal.signedAt))
  }

  private func priceEvents(_ record: RenewalRecord) -> [LifecycleEvent] {
    guard let notification = entry.notification,
      notification.type == NotificationType.priceIncrease.rawValue, let subtype = notification.subtype,
      notification.signedAt >= current.purchaseDate
    else { return [] }
    return [
      event(
        .priceIncrease,
        occasion: [subtype, record.price.map { "\($0)" } ?? "", record.fact.renewalDate?.occasion ?? ""],
        at: notification.signedAt,
        EventDetails(
          price: EventDetails.Price(
            currency: record.currency, milliunits: record.price,
            isAccepted: subtype == Subtype.accepted.rawValue)))
    ]
  }

  // MARK: Transfers

  /// Moves from one customer to another. A device that joins takes nothing from the others.
  private var transferEvents: [LifecycleEvent] {
    moves.enumerated().compactMap { place, move in
      if case .joined = move.cause { return nil }
      // Support may confirm the owner, so that no proof of another customer moves the purchase any more.
      guard let previous = move.previous, previous != move.customer else { return nil }
      var event = event(
        .transferred, occasion: [entry.instant.occasion, "\(place)"], at: entry.instant)
      event.customer = move.customer
      event.formerCustomer = previous
      return event
    }
  }
}

extension RenewalFact {
  /// Why the renewal is off or the subscription ended.
  var reasonWord: String {
    switch expirationIntent {
    case nil, 1: "customer"
    case 2: "billing_error"
    case 3: "price_increase"
    case 4: "not_for_sale"
    default: "other"
    }
  }
}

extension LifecycleEventType {
  /// Whether the customer may have fewer features after the event.
  fileprivate var mayPauseDevices: Bool {
    switch self {
    case .productChanged, .graceStarted, .expired, .refunded, .trialEnded, .transferred: true
    default: false
    }
  }
}

/// The events that time causes: they follow from the phases of the purchase at the entry's instant.
extension PurchaseChange {
  /// For how long a renewal that the App Store intends may be late before the purchase is said to have ended.
  package static let renewalDelay: TimeInterval = 86_400

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

  /// Whether the period is known to be the last: the renewal is off, or a charge failed. Without such a fact the
  /// renewal is probably late, and for a day no end is told.
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
    let begun = [started] + reminder(after: paidUntil, until: accessEnd, details)
    guard let accessEnd else { return begun }
    let reminderAt = max(paidUntil, accessEnd - TimeInterval(app.reminders.graceEndingDays) * 86_400)
    guard reminderAt <= entry.instant else { return begun }
    var ending = event(.graceEnding, occasion: [accessEnd.occasion], at: reminderAt, details)
    ending.periodEnd = accessEnd
    return begun + [ending]
  }

  /// The reminder of the latest whole day of grace, where the app wants one each day.
  private func reminder(
    after paidUntil: Date, until accessEnd: Date?, _ details: EventDetails
  ) -> [LifecycleEvent] {
    guard app.reminders.graceDaily,
      let (day, at) = GraceDay.latest(after: paidUntil, until: accessEnd, at: entry.instant)
    else { return [] }
    var reminder = event(.graceReminder, occasion: [paidUntil.occasion, "\(day)"], at: at, details)
    reminder.periodEnd = paidUntil
    return [reminder]
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
