import Foundation
import Postgres
import Subscriptions

/// A device's trial, and the events that time causes.
struct DueTrial: Sendable {
  /// The id in `trials`. Each device that continues a trial has a row of its own.
  var id: UUID
  var deviceID: String
  /// Apple's environment of the app transaction that started it.
  var environment: String
  var trial: Trial

  init(id: UUID, deviceID: String, environment: String, trial: Trial) {
    self.id = id
    self.deviceID = deviceID
    self.environment = environment
    self.trial = trial
  }

  /// - Parameter row: of ``EventSweepRows/trials(of:except:after:at:limit:)``.
  init(_ row: Row) throws {
    id = try row.decode("id")
    deviceID = try row.decode("device_id")
    environment = try row.decode("environment")
    trial = try Trial(row)
  }

  /// The event of its start.
  func start(in app: App) -> LifecycleEvent {
    event(.trialStarted, in: app, occasion: [], at: trial.startedAt, endsAt: trial.endsAt)
  }

  /// The event that is due at `instant`, if one is: a reminder, unless the customer has bought something, or the end.
  func dueEvent(
    in app: App, _ customerRecords: CustomerRecords, at instant: Date
  ) -> LifecycleEvent? {
    // During free access the end is unknown.
    guard let end = trial.end(honoring: customerRecords.freeAccess) else { return nil }
    let isConverted = customerRecords.subscriptions.contains {
      app.counts($0, for: .device(deviceID), at: instant)
    }
    if end <= instant {
      var event = event(
        .trialEnded, in: app, occasion: [end.occasion], at: end, endsAt: end, isConverted: isConverted)
      event.checksDevices = app.limitsDevices
      return event
    }
    let reminderAt = max(trial.startedAt, end - TimeInterval(app.reminders.trialEndingDays) * 86_400)
    guard reminderAt <= instant, !isConverted else { return nil }
    return event(.trialEnding, in: app, occasion: [end.occasion], at: reminderAt, endsAt: end)
  }

  private func event(
    _ type: LifecycleEventType, in app: App, occasion: [String], at instant: Date, endsAt: Date,
    isConverted: Bool? = nil
  ) -> LifecycleEvent {
    LifecycleEvent(
      type: type, bundleID: app.bundleID, environment: environment, subject: .trial(id), occasion: occasion,
      customer: .device(deviceID), periodEnd: endsAt, occurredAt: instant,
      data: EventDetails(
        trial: EventDetails.TrialPeriod(startedAt: trial.startedAt, endsAt: endsAt, isConverted: isConverted)
      ).bytes)
  }
}
