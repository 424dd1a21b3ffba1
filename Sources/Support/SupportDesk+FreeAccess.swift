import Actions
import Customers
import Foundation
import JSON
import Postgres
import Text
import Work

/// Opens every feature of an app to everyone from now on, or ends that.
///
/// It applies to every server's next response, because responses read it with the customer's records. A repeated call
/// changes nothing.
package struct FreeAccessRequest: SupportRequest {
  package static let operation = SupportOperation.freeAccess

  package enum State: String, Codable, Sendable { case on, off }

  /// Whether to open or to close.
  var state: State
  /// The app.
  var bundleID: String

  package init(state: State, bundleID: String) {
    self.state = state
    self.bundleID = bundleID
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> FreeAccessResult {
    try await desk.setFreeAccess(state == .on, bundleID: bundleID, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func setFreeAccess(
    _ isOn: Bool, bundleID: String, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> FreeAccessResult {
    let app = try app(named: bundleID)
    let instant = clock.now()
    let result = try await pool.withTransaction(isDryRun: isDryRun) { connection in
      let changed = try await connection.query(
        isOn
          ? FreeAccessRows.open(app, by: author, at: instant)
          : FreeAccessRows.close(app, by: author, at: instant))
      guard changed.isEmpty else {
        _ = try await connection.query(
          SupportActionRows.insert(
            [
              SupportAction(
                name: "free-access", bundleID: bundleID, details: ["switched": .string(isOn ? "on" : "off")])
            ], by: author, at: instant))
        return FreeAccessResult(
          bundleID: bundleID, isOn: isOn, since: instant, isChanged: true, isDryRun: isDryRun)
      }
      let latest = try await connection.query(FreeAccessRows.latest(app, isOn: isOn))
      return FreeAccessResult(
        bundleID: bundleID, isOn: isOn, since: try latest.first?.decode("since"), isChanged: false,
        isDryRun: isDryRun)
    }
    if isDryRun { return result }
    await FreeAccessSweep(pool: pool, catalog: catalog, clock: clock, logger: logger).follow(bundleID)
    return result
  }
}

/// The result of ``SupportDesk/setFreeAccess(_:bundleID:by:)``.
package struct FreeAccessResult: Encodable, Sendable, CustomStringConvertible {
  /// The app.
  let bundleID: String
  /// Whether free access is on.
  let isOn: Bool
  /// Since when; `null` if it was never switched.
  @Nullable var since: Date?
  /// Whether this call changed it, or would.
  let isChanged: Bool
  /// Whether nothing was written.
  let isDryRun: Bool

  init(bundleID: String, isOn: Bool, since: Date?, isChanged: Bool, isDryRun: Bool) {
    self.bundleID = bundleID
    self.isOn = isOn
    self.since = since
    self.isChanged = isChanged
    self.isDryRun = isDryRun
  }

  /// One line.
  package var description: String {
    let when = since.map { (isChanged ? " from " : ", already since ") + $0.rfc3339 } ?? ", and always was"
    return "\(bundleID): free access is \(isOn ? "on" : "off")\(when)"
  }
}
