import Foundation

/// The phases of a subscription in order of time: paid time, Apple's billing grace, the app's own grace, the end.
///
/// - Parameters:
///   - revoked: whether the current purchase was refunded or revoked.
///   - paidUntil: the end of the paid time; nil for a purchase for life.
///   - graceEnds: the end of Apple's billing grace; nil without one.
///   - isInBillingRetry: whether Apple tries to charge again.
///   - ownGraceEnds: the end of the app's own grace; `.distantFuture` during free access, whose end recomputes it.
func phases(
  revoked: Bool, paidUntil: Date?, graceEnds: Date?, isInBillingRetry: Bool, ownGraceEnds: Date?
) -> [Phase] {
  if revoked { return [Phase(startsAt: nil, status: .cancelled, storeStatus: .revoked)] }
  var phases = [Phase(startsAt: nil, status: .active, storeStatus: .active)]
  guard let paidUntil else { return phases }

  if graceEnds != nil {
    phases.append(Phase(startsAt: paidUntil, status: .grace, storeStatus: .billingGrace))
  }
  // Two periods start at the end of the paid time: the app's own grace decides `status`, and Apple's billing retry decides
  // `storeStatus`.
  let accessEnds = graceEnds ?? paidUntil
  let ownGraceEnds = ownGraceEnds ?? paidUntil
  let retryEnds = paidUntil.addingTimeInterval(SubscriptionFacts.billingRetryLimit)
  let starts =
    [accessEnds] + [ownGraceEnds, retryEnds].filter { $0 > accessEnds && $0 < .distantFuture }.sorted()
  for start in starts {
    let phase = Phase(
      startsAt: start,
      status: start < ownGraceEnds ? .grace : .expired,
      storeStatus: isInBillingRetry && start < retryEnds ? .billingRetry : .expired)
    if let last = phases.last, last.status == phase.status, last.storeStatus == phase.storeStatus {
      continue
    }
    phases.append(phase)
  }
  return phases
}
