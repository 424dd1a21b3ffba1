import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

extension Doctor {
  /// For how long no client may have written before `refuse` is safe, in days.
  private static let quietDays = 30.0

  /// Reports, for each of the app's own tables, the mode in which clients may write the premium columns, how many wrote
  /// lately, and when the mode `refuse` breaks no old build.
  func clientWrites(
    _ pool: PostgresPool, _ settings: Settings, _ catalog: AppCatalog
  ) async throws -> [CheckResult] {
    let modes = ClientWriteModes(catalog: catalog, appsWithKey: catalog.appsWithStoreKey(settings))
    let recent = try await pool.query(ClientWriteRows.recent(at: clock.now())).map(
      ClientWriteRows.Recent.init)
    var results: [CheckResult] = []
    for stored in try await ClientWriteModes.read(pool) {
      guard let table = ProfileTable.all.first(where: { $0.destination.rawValue == stored.table }),
        let recent = recent.first(where: { $0.table == stored.table }),
        !modes.apps(writingTo: table).isEmpty
      else { continue }
      results.append(report(stored, modes, table, recent))
      results += try await premiumWriters(pool, stored, modes, table)
    }
    return results
  }

  private func report(
    _ stored: ClientWriteModes.StoredMode, _ modes: ClientWriteModes, _ table: ProfileTable,
    _ recent: ClientWriteRows.Recent
  ) -> CheckResult {
    let configured = modes.mode(of: table, existedBefore: stored.existedBefore)
    let isSet = modes.apps(writingTo: table).contains { $0.clientWrites != nil }
    var parts = [
      "\(configured.rawValue)" + (isSet ? "" : " (by default; clientWrites is not set)")
        + (stored.mode == configured
          ? ""
          : ", in force once a server has started or read its configuration; now \(stored.inForce.rawValue)")
    ]
    if configured != .refuse || recent.writes > 0 {
      let users = recent.users == 1 ? "1 user" : "\(recent.users) users"
      let writes = recent.writes == 1 ? "1 client write" : "\(recent.writes) client writes"
      let bound = recent.bound > 0 ? ", \(recent.bound) of them with a verified purchase" : ""
      parts.append("\(writes) of \(users) in the last 30 days\(bound)")
      if let last = recent.last { parts.append("the last at \(last.rfc3339)") }
    }
    if configured != .refuse {
      // The count may be younger than 30 days.
      let quietSince = max(recent.last ?? .distantPast, stored.countedSince)
      let safe = quietSince.addingTimeInterval(Self.quietDays * 86_400)
      parts.append(
        safe <= clock.now()
          ? "refuse is safe now" : "refuse is safe from \(safe.rfc3339), if no client writes until then")
    }
    return .ok("client writes to \(stored.table)", parts.joined(separator: "; "))
  }
}

extension ClientWriteModes.StoredMode {
  /// The mode that the triggers apply.
  fileprivate var inForce: ClientWrites { mode ?? (existedBefore ? .accept : .refuse) }
}
