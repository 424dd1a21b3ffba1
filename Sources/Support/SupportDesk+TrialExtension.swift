import Actions
import Customers
import Foundation
import JSON
import Ledger
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Extends a trial once, from its end, or from now if it is over.
package struct ExtendTrialRequest: SupportRequest {
  package static let operation = SupportOperation.extendTrial

  /// Any device of the trial; the devices of one Apple Account share it.
  var deviceID: String
  /// The app.
  var bundleID: String
  /// From 1 to 36,500, of 24 hours.
  var days: Int
  /// Whether the device may be one that was never seen. Without a trial there is nothing to extend.
  var force: Bool?

  package init(deviceID: String, bundleID: String, days: Int, force: Bool? = nil) {
    self.deviceID = deviceID
    self.bundleID = bundleID
    self.days = days
    self.force = force
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> TrialExtensionResult {
    try await desk.extendTrial(self, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func extendTrial(
    _ request: ExtendTrialRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> TrialExtensionResult {
    let (bundleID, days) = (request.bundleID, request.days)
    let app = try app(named: bundleID)
    try checkDays(days, by: author)
    guard case .device(let device) = try app.customer(named: request.deviceID) else {
      throw SupportRefusal.invalid("\(bundleID) has no trials: its customers are users.")
    }
    try await checkSeen(.device(device), of: app, isForced: request.force ?? false)
    let instant = clock.now()
    return try await customerTransactions.run(
      locking: [Customer.device(device).lockName], isDryRun: isDryRun,
      [TrialExtensionRows.select(device, bundleID: bundleID), FreeAccessByApp.select]
    ) { connection, answers in
      guard let stored = answers.first, let periods = answers.last else { throw ServiceError.internalError }
      let trials = try stored.map { (id: try $0.decode("id", as: UUID.self), trial: try Trial($0)) }
      guard let trial = app.trial(among: trials.map(\.trial), for: .device(device), at: instant),
        let id = trials.first(where: { $0.trial == trial })?.id
      else {
        throw SupportRefusal.notFound("The device '\(device)' never started a trial of \(bundleID).")
      }
      let freeAccess = try FreeAccessByApp(periods)[app]
      let endsAt = trial.end(extendedBy: days, honoring: freeAccess, at: instant)
      // The row's condition decides, not the lock: another device of the account may extend the same trial.
      let changed = try await connection.query(
        TrialExtensionRows.extend(id, until: endsAt, days: days))
      guard !changed.isEmpty else {
        throw try await alreadyExtended(id, bundleID: bundleID, connection)
      }
      if let late = LateFact(from: trial.endsAt, at: instant) {
        _ = try await connection.query(LateFactRows.insert([late]))
      }
      _ = try await connection.query(
        SupportActionRows.insert(
          [
            SupportAction(
              name: "extend-trial", bundleID: bundleID, to: .device(device),
              details: ["trial": .string(id.uuidString.lowercased()), "days": .integer(days)])
          ], by: author, at: instant))
      // Select after the update: a device that joins the trial later waits for the commit and reads the new end.
      let devices = try await connection.query(TrialExtensionRows.devices(of: id))
        .map { Customer.device(try $0.decode("device_id")) }
      try await statusWriter.write(devices, of: bundleID, at: instant, on: connection)
      let extended = Trial(startedAt: trial.startedAt, endsAt: endsAt)
      return TrialExtensionResult(
        deviceID: device, bundleID: bundleID, startedAt: trial.startedAt,
        endsAt: extended.end(honoring: freeAccess.ending(at: instant)) ?? endsAt, extendedDays: days,
        isDryRun: isDryRun)
    }
  }

  private func alreadyExtended(
    _ trial: UUID, bundleID: String, _ connection: PostgresConnection
  ) async throws -> SupportRefusal {
    let rows = try await connection.query(TrialExtensionRows.earlier(trial, bundleID: bundleID))
    let earlier = try rows.first.map {
      try ": by \($0.decode("by", as: String.self)) at \($0.decode("at", as: Date.self).rfc3339), "
        + "reason: \($0.decode("reason", as: String.self))"
    }
    return .alreadyDone("A trial can be extended once, and this one already was\(earlier ?? ".")")
  }
}

extension Trial {
  /// The end to store; later periods of free access postpone it.
  fileprivate func end(extendedBy days: Int, honoring freeAccess: FreeAccess, at instant: Date) -> Date {
    let missed = end(honoring: freeAccess).map { freeAccess.paidTime(from: $0, until: instant) } ?? 0
    return endsAt.addingTimeInterval(missed + TimeInterval(days) * 86_400)
  }
}

/// The result of ``ExtendTrialRequest``.
package struct TrialExtensionResult: Encodable, Sendable, CustomStringConvertible {
  /// The device.
  let deviceID: String
  /// The app.
  let bundleID: String
  /// When the trial began.
  let startedAt: Date
  /// When it ends; free access, now or later, postpones it.
  let endsAt: Date
  /// The number of days added.
  let extendedDays: Int
  /// Whether nothing was written.
  let isDryRun: Bool

  /// One line.
  package var description: String { "\(deviceID): the trial ends at \(endsAt.rfc3339)" }
}
