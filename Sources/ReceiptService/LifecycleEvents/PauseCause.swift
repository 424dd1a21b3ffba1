import Foundation
import Postgres
import Subscriptions

/// An event that may have lowered the number of devices that a customer may pair.
struct PauseCause: Sendable {
  var id: UUID
  var environment: String
  var deviceID: String?
  var subject: LifecycleEvent.Subject
  var occurredAt: Date

  /// - Parameter row: of ``EventSweepRows/unchecked(bundleID:limit:)``.
  init(_ row: Row) throws {
    id = try row.decode("id")
    environment = try row.decode("environment")
    deviceID = try row.decode("device_id")
    occurredAt = try row.decode("occurred_at")
    subject =
      if let trial = try row.decode("trial_id", as: UUID?.self) {
        .trial(trial)
      } else {
        .purchase(
          originalTransactionID: try row.decode("original_transaction_id"),
          transactionID: try row.decode("transaction_id"))
      }
  }

  /// The event about the devices beyond the customer's limit at `instant`; `nil` if there are none.
  /// - Parameter paired: the customer's paired devices, the first pairing first.
  func event(
    in app: App, _ records: RecordsByCustomer, paired: [PairedDevice], at instant: Date
  ) -> LifecycleEvent? {
    guard let deviceID else { return nil }
    let customer = Customer.device(deviceID)
    let entitlements = app.entitlements(
      of: records.customerRecords(of: customer, in: app, at: instant), for: customer, at: instant)
    guard let limit = entitlements.features.limit(for: Pairing.limitFeature), paired.count > limit else {
      return nil
    }
    return LifecycleEvent(
      type: .pausedDevices, bundleID: app.bundleID, environment: environment, subject: subject,
      occasion: [id.uuidString.lowercased()], customer: customer,
      pausedDevices: paired.dropFirst(limit).map(\.childDeviceID), occurredAt: occurredAt,
      data: EventDetails(cause: id, limit: limit).bytes)
  }
}
