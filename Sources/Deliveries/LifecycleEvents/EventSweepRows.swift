import Configuration
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions

/// The queries of ``EventSweep``: rows whose next event is due, and was not written down.
enum EventSweepRows {
  /// The purchases of an app whose grace period ends soon, and those that ended a day ago although the App Store meant
  /// to renew them. The ledger decides the event; the conditions are those of ``PurchaseChange/timeEvents``.
  static func purchases(of app: App, at instant: Date, limit: Int) -> Query {
    let reminder = instant + TimeInterval(app.reminders.graceEndingDays) * 86_400
    let late = instant - PurchaseChange.renewalDelay
    let oldest = late - LifecycleEvent.maximumAge
    let daily: Query =
      app.reminders.graceDaily
      ? """

      UNION ALL
      (SELECT original_transaction_id FROM subscriptions AS purchase
       WHERE bundle_id = \(app.bundleID) AND status = 'grace' AND expiry_date <= \(instant - 86_400)
         AND next_change_at > \(instant)
         AND NOT EXISTS (
           SELECT FROM lifecycle_events AS event
           WHERE event.original_transaction_id = purchase.original_transaction_id AND event.type = 'grace.reminder'
             AND event.occurred_at > \(instant - 86_400))
       LIMIT \(limit))
      """ : ""
    return """
      (SELECT original_transaction_id FROM subscriptions AS purchase, LATERAL (
         SELECT min(phase.start) AS at FROM unnest(phase_starts, phase_statuses) AS phase (start, status)
         WHERE phase.start > \(instant) AND phase.status <> 'grace') AS grace_end
       WHERE next_change_at > \(instant) AND next_change_at <= \(reminder) AND bundle_id = \(app.bundleID)
         AND status = 'grace' AND grace_end.at <= \(reminder)
         AND (NOT auto_renew_enabled OR store_status <> 'expired' OR expiry_date <= \(late))
         AND NOT EXISTS (
           SELECT FROM lifecycle_events AS event
           WHERE event.original_transaction_id = purchase.original_transaction_id AND event.type = 'grace.ending'
             AND event.period_end = grace_end.at)
       LIMIT \(limit))
      UNION ALL
      (SELECT original_transaction_id FROM subscriptions AS purchase
       WHERE expiry_date > \(oldest) AND expiry_date <= \(late) AND bundle_id = \(app.bundleID)
         AND auto_renew_enabled AND store_status = 'expired' AND status IN ('grace', 'expired')
         AND NOT EXISTS (
           SELECT FROM lifecycle_events AS event
           WHERE event.original_transaction_id = purchase.original_transaction_id
             AND event.type = CASE purchase.status WHEN 'grace' THEN 'grace.started' ELSE 'expired' END
             AND event.period_end = purchase.expiry_date)
       LIMIT \(limit))\(daily)
      """
  }

  /// Finds a page of an app's trials with an event that is due.
  typealias FindTrials =
    @Sendable (
      _ app: App, _ pause: TimeInterval, _ place: TrialPlace, _ instant: Date, _ limit: Int
    ) -> Query

  /// The place of a page of trials.
  struct TrialPlace: Sendable {
    var endsAt: Date
    var id: UUID

    static let start = TrialPlace(
      endsAt: .distantPast, id: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
  }

  /// The trials of an app, one row for each device, that end soon or have ended and whose event is not written down. No
  /// webhook gets the pseudonym of an erased device.
  /// - Parameter pause: the time of free access, by which an end may be later than `ends_at`.
  static let trials: FindTrials = { app, pause, place, instant, limit in
    let reminder = instant + TimeInterval(app.reminders.trialEndingDays) * 86_400
    let oldest = instant - LifecycleEvent.maximumAge - pause
    return """
      SELECT own.id, own.device_id, own.environment, original.started_at, original.ends_at
      FROM trials AS original, LATERAL (
        SELECT original.id, original.device_id, original.environment
        UNION ALL
        SELECT joined.id, joined.device_id, joined.environment FROM trials AS joined
        WHERE joined.continues = original.id) AS own
      WHERE original.continues IS NULL AND original.ends_at > \(oldest) AND original.ends_at <= \(reminder)
        AND original.bundle_id = \(app.bundleID)
        AND (original.ends_at, own.id) > (\(place.endsAt)::timestamptz, \(place.id)::uuid)
        AND NOT EXISTS (
          SELECT FROM support_actions WHERE action = 'erase-customer' AND to_customer = own.device_id)
        AND NOT EXISTS (
          SELECT FROM lifecycle_events AS event
          WHERE event.trial_id = own.id AND event.period_end >= original.ends_at
            AND event.type = CASE WHEN original.ends_at > \(instant) THEN 'trial.ending' ELSE 'trial.ended' END)
      ORDER BY original.ends_at, own.id LIMIT \(limit)
      """
  }

  /// The trials of an app that are in the app's own grace and have no reminder of the latest day; one row for each
  /// device that bought nothing.
  static let trialGraces: FindTrials = { app, pause, place, instant, limit in
    let oldest = instant - (app.grace?.duration ?? 0) - pause
    return """
      SELECT own.id, own.device_id, own.environment, original.started_at, original.ends_at
      FROM trials AS original, LATERAL (
        SELECT original.id, original.device_id, original.environment
        UNION ALL
        SELECT joined.id, joined.device_id, joined.environment FROM trials AS joined
        WHERE joined.continues = original.id) AS own
      WHERE original.continues IS NULL AND original.ends_at > \(oldest) AND original.ends_at <= \(instant - 86_400)
        AND original.bundle_id = \(app.bundleID)
        AND (original.ends_at, own.id) > (\(place.endsAt)::timestamptz, \(place.id)::uuid)
        AND NOT EXISTS (
          SELECT FROM support_actions WHERE action = 'erase-customer' AND to_customer = own.device_id)
        AND NOT EXISTS (SELECT FROM subscriptions s WHERE s.device_id = own.device_id AND s.bundle_id = original.bundle_id)
        AND NOT EXISTS (
          SELECT FROM lifecycle_events AS event
          WHERE event.trial_id = own.id AND event.type = 'grace.reminder' AND event.occurred_at > \(instant - 86_400))
      ORDER BY original.ends_at, own.id LIMIT \(limit)
      """
  }

  /// The devices that these trials have now (`id`, `device_id`).
  static func devices(of trials: [UUID]) -> Query {
    "SELECT id, device_id FROM trials WHERE id = ANY(\(trials))"
  }

  /// Events that may have paused devices, locked until the end of the transaction; others have those that are locked.
  static func unchecked(bundleID: String, limit: Int) -> Query {
    """
    SELECT id, environment, device_id, original_transaction_id, transaction_id, trial_id, occurred_at
    FROM lifecycle_events WHERE checks_devices AND bundle_id = \(bundleID) ORDER BY created_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
    """
  }

  static func markChecked(_ ids: [UUID]) -> Query {
    "UPDATE lifecycle_events SET checks_devices = false WHERE id = ANY(\(ids))"
  }
}
