import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Writes users' premium status where their apps want it, in the transaction of the rows it follows from.
struct ProfileWriter {
  let catalog: AppCatalog
  let instant: Date
  let logger: Logger

  /// - Parameters:
  ///   - users: whose status may have changed; the transaction holds their locks.
  ///   - owned: all subscriptions of these users, of all apps.
  func write(
    users: [UUID], owned: [Customer?: [StoredSubscription]], on connection: PostgresConnection
  ) async throws {
    try await write(
      users, owned, to: .profiles, existing: ProfileRows.existingProfiles,
      update: ProfileRows.updateProfiles, insert: ProfileRows.insertProfile, connection)
    try await write(
      users, owned, to: .userPreferences, existing: ProfileRows.existingPreferences,
      update: ProfileRows.updatePreferences, insert: ProfileRows.insertPreferences, connection)
  }

  private func write(
    _ users: [UUID], _ owned: [Customer?: [StoredSubscription]], to mirror: Mirror,
    existing: ([UUID]) -> Query, update: ([ProfileRows.Write]) -> Query,
    insert: (ProfileRows.Write) -> Query, _ connection: PostgresConnection
  ) async throws {
    let apps = catalog.apps.filter { $0.customer == .user && $0.writeTo.contains(mirror) }
    guard !apps.isEmpty else { return }
    guard !users.isEmpty else { return }
    let writes = users.map { user in
      ProfileRows.Write(userID: user, status: status(of: user, owned[.user(user)] ?? [], in: apps))
    }
    let answers = try await connection.pipeline([existing(writes.map(\.userID)), update(writes)])
    let present = Set(try answers[0].map { row in try row.decode(0, as: UUID.self) })
    // A user without a row is free already: nothing to say to nobody.
    for write in writes where !present.contains(write.userID) && write.status.productID != nil {
      try await insertRow(insert(write), mirror, connection)
    }
  }

  /// The strongest status among the apps that write to one place.
  private func status(of user: UUID, _ owned: [StoredSubscription], in apps: [App]) -> PremiumStatus {
    apps.map { app in
      let subscriptions = owned.filter { $0.bundleID == app.bundleID }.map(\.subscription)
      let entitlements = app.entitlements(of: subscriptions, for: .user(user), at: instant)
      return PremiumStatus(entitlements, at: instant)
    }
    .reduce(PremiumStatus.free) { best, status in status.isStronger(than: best) ? status : best }
  }

  /// The app's own table may want more than we know (a foreign key to a user who is gone, a column
  /// without a default). That must not cost us the facts, so it is said and left.
  private func insertRow(
    _ query: Query, _ mirror: Mirror, _ connection: PostgresConnection
  ) async throws {
    do {
      try await connection.savepoint { connection in _ = try await connection.query(query) }
    } catch let error as PostgresError where error.isIntegrityViolation {
      logger.warning(
        "a premium status has no row to stand in",
        metadata: ["table": "\(mirror.rawValue)", "sqlstate": "\(error.sqlState ?? "")"])
    }
  }
}

extension PremiumStatus {
  fileprivate func isStronger(than other: PremiumStatus) -> Bool {
    if isPremium != other.isPremium { return isPremium }
    if (productID == nil) != (other.productID == nil) { return productID != nil }
    return (expiresAt ?? .distantFuture) > (other.expiresAt ?? .distantFuture)
  }
}

extension PostgresError {
  /// Class 23 of the SQLSTATEs: the row breaks a rule of the table.
  var isIntegrityViolation: Bool { sqlState?.hasPrefix("23") ?? false }
}
