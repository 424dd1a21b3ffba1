import FoundationEssentials
import Postgres
import Subscriptions

extension SupportDesk {
  /// Gives a trial more days: from its end, or from now where it is over. Once in the life of a trial.
  ///
  /// - Parameter device: the device that started it, or one that goes on with it: the account's devices share one.
  /// - Throws: ``SupportRefusal``, also for a trial that was extended before, and what the database throws.
  public func extendTrial(
    of device: String, bundleID: String, days: Int, by author: SupportAuthor
  ) async throws -> TrialExtensionAnswer {
    let app = try app(named: bundleID)
    try checkDays(days)
    guard case .device(let device) = try app.customer(named: device) else {
      throw SupportRefusal.invalid("\(bundleID) has no trials: its customers are users.")
    }
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([.device(device)]),
        TrialExtensionRows.select(device, bundleID: bundleID), HoldingsRows.freeTimes,
      ])
      let found = try answers[1].map(TrialExtensionRows.decode)
      guard let trial = app.trial(among: found.map(\.trial), for: .device(device)),
        let id = found.first(where: { $0.trial == trial })?.id
      else {
        throw SupportRefusal.notFound("The device '\(device)' never started a trial of \(bundleID).")
      }
      let freeTime = try HoldingsRows.decodeFreeTimes(answers[2])[app]
      let endsAt = trial.end(extendedBy: days, honoring: freeTime, at: instant)
      // The condition on the row, not the lock, decides: devices of one account share a trial.
      let changed = try await connection.query(
        TrialExtensionRows.extend(id, until: endsAt, days: days))
      guard !changed.isEmpty else {
        throw try await alreadyExtended(id, bundleID: bundleID, connection)
      }
      _ = try await connection.query(
        SupportActionRows.insert(
          [
            SupportAction(
              name: "extend-trial", bundleID: bundleID, to: .device(device),
              details: ["trial": .string(id.uuidString.lowercased()), "days": .integer(days)])
          ], by: author, at: instant))
      // Read after the row was changed: nobody can begin to go on with it unseen.
      let devices = try await connection.query(TrialExtensionRows.devices(of: id))
        .map { Customer.device(try $0.decode(0)) }
      try await followUp.write(devices, of: bundleID, at: instant, on: connection)
      let extended = Trial(startedAt: trial.startedAt, endsAt: endsAt)
      return TrialExtensionAnswer(
        deviceID: device, bundleID: bundleID, startedAt: trial.startedAt,
        endsAt: extended.end(honoring: freeTime.ending(at: instant)) ?? endsAt, extendedDays: days)
    }
  }

  private func alreadyExtended(
    _ trial: UUID, bundleID: String, _ connection: PostgresConnection
  ) async throws -> SupportRefusal {
    let rows = try await connection.query(TrialExtensionRows.earlier(trial, bundleID: bundleID))
    let told = try rows.first.map {
      try ": by \($0.decode(0, as: String.self)) at \($0.decode(1, as: Date.self).inWords), "
        + "because: \($0.decode(2, as: String.self))"
    }
    return .alreadyDone("A trial can be extended once, and this one was\(told ?? ".")")
  }
}

extension Trial {
  /// The end to be stored, which free time puts off further.
  fileprivate func end(extendedBy days: Int, honoring freeTime: FreeTime, at instant: Date) -> Date {
    let missed = end(honoring: freeTime).map { freeTime.paidTime(from: $0, until: instant) } ?? 0
    return endsAt.addingTimeInterval(missed + TimeInterval(days) * 86_400)
  }
}

private enum TrialExtensionRows {
  static func select(_ device: String, bundleID: String) -> Query {
    """
    SELECT told.id, told.started_at, told.ends_at, own.environment
    FROM trials own JOIN trials told ON told.id = coalesce(own.continues, own.id)
    WHERE own.bundle_id = \(bundleID) AND own.device_id = \(device)
    """
  }

  static func decode(_ row: Row) throws -> (id: UUID, trial: Trial) {
    (
      try row.decode(0),
      Trial(
        startedAt: try row.decode(1), endsAt: try row.decode(2), environment: try environment(row.decode(3)))
    )
  }

  static func extend(_ id: UUID, until end: Date, days: Int) -> Query {
    """
    UPDATE trials SET ends_at = \(end), extended_days = \(days)
    WHERE id = \(id) AND extended_days = 0 RETURNING id
    """
  }

  /// Who has a trial: who started it, and who goes on with it.
  static func devices(of trial: UUID) -> Query {
    "SELECT device_id FROM trials WHERE id = \(trial) OR continues = \(trial)"
  }

  /// Under the name of any of its devices.
  static func earlier(_ trial: UUID, bundleID: String) -> Query {
    """
    SELECT by, at, reason FROM support_actions
    WHERE to_customer IN (SELECT device_id FROM trials WHERE id = \(trial) OR continues = \(trial))
      AND bundle_id = \(bundleID) AND action = 'extend-trial'
    ORDER BY id DESC LIMIT 1
    """
  }
}

/// An extended trial, as support reads it.
public struct TrialExtensionAnswer: Encodable, Sendable, CustomStringConvertible {
  /// The device.
  let deviceID: String
  /// The app.
  let bundleID: String
  /// When the trial began.
  let startedAt: Date
  /// When it ends now, if the app asks for a subscription from now on.
  let endsAt: Date
  /// How many days were added.
  let extendedDays: Int

  /// One line.
  public var description: String { "\(deviceID): the trial ends at \(endsAt.inWords)" }
}
