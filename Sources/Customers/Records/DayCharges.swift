import Foundation
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Statements that charge an app's row of the day in `event_bytes_daily`.
///
/// That row is one lock for all clients of an app. So a process runs one of these statements of an app at a time, each
/// in a transaction of its own with a short lock timeout; the others wait in memory (``Turns``). A transaction that
/// holds other locks does not wait for the row: see ``charging(_:at:_:)``.
package final class DayCharges: Sendable {
  private struct AppDay: Hashable, Sendable {
    var bundleID: String
    var day: String
  }

  private let pool: PostgresPool
  private let turns = Turns<AppDay>(maximumWaiting: 1_024, patience: .seconds(2))

  package init(pool: PostgresPool) {
    self.pool = pool
  }

  /// Runs a statement that charges the app's row of this instant's day.
  ///
  /// A statement that does not get its rows in time fails with 55P03. Those that wait for their turn do not: the
  /// statement may have waited for a row of its customer, which an erasure holds.
  ///
  /// - Throws: 503 `database_unavailable` where the turn does not come in time; errors of the database.
  package nonisolated(nonsending) func query(_ statement: Query, of app: App, at instant: Date) async throws
    -> Rows
  {
    let key = AppDay(bundleID: app.bundleID, day: Day(of: instant).description)
    do {
      try await turns.take(key)
    } catch let error as PostgresError {
      throw error
    } catch {
      throw ServiceError.databaseUnavailable
    }
    do {
      let answer = try await pool.query(statement, lockTimeout: LockTimeout.shared)
      turns.end(key)
      return answer
    } catch {
      turns.end(
        key,
        (error as? PostgresError).flatMap { $0.isAnsweredUnavailable && !$0.isLockNotGranted ? $0 : nil })
      throw error
    }
  }

  /// Runs `body`, which may find under its locks that it needs a charge. It then throws ``DayChargeNeeded`` and so
  /// writes nothing; the day is charged, and `body` runs again.
  ///
  /// So no transaction waits for the app's row while it holds a customer's lock. A charge without use is possible,
  /// where two requests of one device come at once: the day's number is a limit, not a count.
  ///
  /// - Parameter body: its argument says whether the day was charged: `nil` the first time, `false` where the day has
  ///   its number.
  package nonisolated(nonsending) func charging<R>(
    _ app: App, at instant: Date, _ body: nonisolated(nonsending) (Bool?) async throws -> R
  ) async throws -> R {
    let needed: DayChargeNeeded
    do {
      return try await body(nil)
    } catch let error as DayChargeNeeded {
      needed = error
    }
    let charged = try await query(
      DeviceSecretRows.charge(app.bundleID, upTo: needed.most, at: instant), of: app, at: instant)
    return try await body(charged.affected == 1)
  }
}

/// A transaction adds a row that a client can cause without a purchase, so the app's day has to be charged first.
package struct DayChargeNeeded: Error {
  /// The number of rows that the day may have.
  let most: Int
}
