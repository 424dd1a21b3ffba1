import FoundationEssentials
import Postgres
import Subscriptions

extension SupportDesk {
  /// Asks nobody of an app for a subscription from now on, or asks again.
  ///
  /// Every server's next answer follows, because answers read it with what a customer has. What is in force already
  /// stays as it is.
  ///
  /// - Throws: ``SupportRefusal`` for an app that is not configured, and what the database throws.
  public func setFreeAccess(
    _ isOn: Bool, bundleID: String, by author: SupportAuthor
  ) async throws -> FreeAccessAnswer {
    let app = try app(named: bundleID)
    let instant = clock.now()
    return try await pool.withTransaction { connection in
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
        if let everyone = CustomerChanges.enqueueEveryone(of: app, at: instant) {
          _ = try await connection.query(everyone)
        }
        return FreeAccessAnswer(bundleID: bundleID, isOn: isOn, since: instant, isChanged: true)
      }
      let latest = try await connection.query(FreeAccessRows.latest(app, isOn: isOn))
      return FreeAccessAnswer(
        bundleID: bundleID, isOn: isOn, since: try latest.first?.decode(0), isChanged: false)
    }
  }
}

/// Whether an app asks for a subscription, as support reads it.
public struct FreeAccessAnswer: Encodable, Sendable, CustomStringConvertible {
  /// The app.
  let bundleID: String
  /// Whether it asks nobody.
  let isOn: Bool
  /// Since when; `null` where it always was so.
  @Nullable var since: Date?
  /// Whether this call did something; it had been done already otherwise.
  let isChanged: Bool

  init(bundleID: String, isOn: Bool, since: Date?, isChanged: Bool) {
    self.bundleID = bundleID
    self.isOn = isOn
    self.since = since
    self.isChanged = isChanged
  }

  /// One line.
  public var description: String {
    let when = since.map { (isChanged ? " from " : ", already since ") + $0.inWords } ?? " as ever"
    return "\(bundleID): free access is \(isOn ? "on" : "off")\(when)"
  }
}
