import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// Writes free access to the apps' own tables, for clients that read these alone, and gives the rows their former
/// values back when it ends.
///
/// Only rows that are not premium are written, and only rows that still have what free access wrote are given back. A
/// purchase or a write of the app's backend in between stays. ``ProfileWriter`` does not know of free access: where it
/// writes free, the next run saves that and opens the row again. Any number of servers may run at once.
package struct FreeAccessTables: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger

  /// The product in rows of `profiles` that free access opened.
  package static let productID = "free-access"

  /// How long a client without network keeps a row of `profiles`. The end moves on when less than ``renewal`` is left.
  private static let reach: TimeInterval = 8 * 86_400
  private static let renewal: TimeInterval = 7 * 86_400
  private static let page = 500
  /// More rows that the table refuses end a run. The next one begins elsewhere.
  private static let mostRefused = 100
  /// Where a part of a page is refused, it is tried in so many smaller parts.
  private static let smallerParts = 16

  /// Opens or gives back the rows of each table, as free access is at this instant.
  func run() async throws {
    var failure: (any Error)?
    for table in ProfileTable.all {
      let apps = catalog.apps.filter { $0.freeAccessWrites && $0.writeTo.contains(table.destination) }
      let bundleIDs = apps.map(\.bundleID)
      do {
        let isOpen = Set(
          try await pool.query(FreeAccessTableRows.open(bundleIDs)).map {
            try $0.decode("bundle_id", as: String.self)
          })
        let open = apps.filter { isOpen.contains($0.bundleID) }
        if let app = open.first {
          let limit = open.map(\.bookmarkLimits.premium).max() ?? 0
          try await openRows(of: table, for: app, bookmarkLimit: limit, sharedBy: bundleIDs)
        } else {
          try await giveBack(table, sharedBy: bundleIDs)
        }
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
  }

  private func openRows(
    of table: ProfileTable, for app: App, bookmarkLimit: Int, sharedBy bundleIDs: [String]
  ) async throws {
    try await eachPage { last in
      let instant = clock.now()
      let rows = FreeAccessTableRows(table, at: instant, until: instant + Self.reach, bookmarkLimit)
      return try await users(rows.closed(after: last, before: instant + Self.renewal, limit: Self.page))
    } body: { users, refused in
      let instant = clock.now()
      let rows = FreeAccessTableRows(table, at: instant, until: instant + Self.reach, bookmarkLimit)
      try await inParts(users, table, &refused) { users in
        try await pool.withTransaction { connection in
          _ = try await connection.pipeline(
            [
              ProfileWriter.limits(),
              rows.open(users, before: instant + Self.renewal, for: app.bundleID, sharedBy: bundleIDs),
            ] + Self.endOfLimits)
        }
      }
    }
  }

  /// Calls `body` with each page of users, from a random one to the last, then from the first on: where a run ends
  /// early because the table refuses many rows, the next one reaches others.
  /// - Parameters:
  ///   - page: the users after one; `nil` for the first page.
  ///   - body: with the number of rows that the table has refused in this run.
  private nonisolated(nonsending) func eachPage(
    _ page: nonisolated(nonsending) (UUID?) async throws -> [UUID],
    body: nonisolated(nonsending) ([UUID], inout Int) async throws -> Void
  ) async throws {
    var refused = 0
    let start = UUID()
    for first in [start, nil] {
      var last = first
      while true {
        // In the second part, the rows after the start had their turn.
        let users = try await page(last).filter { first != nil || $0.uuidString <= start.uuidString }
        try await body(users, &refused)
        guard users.count == Self.page else { break }
        last = users.last
      }
    }
  }

  /// Gives back all rows that were saved for apps of this configuration, or for apps whose free access is over.
  private func giveBack(_ table: ProfileTable, sharedBy bundleIDs: [String]) async throws {
    try await eachPage { last in
      try await users(
        FreeAccessTableRows.saved(in: table, after: last, of: catalog.apps.map(\.bundleID), limit: Self.page))
    } body: { users, refused in
      for group in users.chunked(by: LockedGroups.size) {
        try await inParts(group, table, &refused) { users in
          try await pool.withTransaction { connection in
            try await giveBack(users, in: table, sharedBy: bundleIDs, on: connection)
          }
        }
      }
    }
  }

  /// A user with access may have bought during free access: the row had the values of premium already, so that the
  /// purchase did not change it.
  private func giveBack(
    _ users: [UUID], in table: ProfileTable, sharedBy bundleIDs: [String], on connection: PostgresConnection
  ) async throws {
    let instant = clock.now()
    let rows = FreeAccessTableRows(table, at: instant, until: instant, 0)
    let answers = try await connection.pipeline(
      [
        CustomerStatusWriter.lock(users.map { Customer.user($0) }, timeout: LockedGroups.lockTimeout),
        ProfileWriter.limits(), rows.lock(users), rows.giveBack(users, sharedBy: bundleIDs),
      ] + Self.endOfLimits)
    let given = try answers[3].map { try $0.decode("user_id", as: UUID.self) }
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger, tables: [table])
    let apps = writer.apps(writingTo: table).map(\.bundleID)
    let customers = try await connection.query(
      FreeAccessTableRows.withAccess(among: given, in: apps, at: instant)
    ).map { try $0.decode("user_id", as: UUID.self) }
    guard !customers.isEmpty else { return }
    let records = try await connection.customerRecords(users: customers)
    let changes = customers.flatMap { user in
      apps.map { CustomerChange(bundleID: $0, customer: .user(user)) }
    }
    _ = try await writer.write(changes, customerRecords: records, on: connection)
  }

  private func users(_ query: Query) async throws -> [UUID] {
    try await pool.query(query).map { try $0.decode("user_id", as: UUID.self) }
  }

  /// A deferred constraint fails here, and not at COMMIT, which may wait for a standby.
  private static let endOfLimits: [Query] = [
    "SET CONSTRAINTS ALL IMMEDIATE", "SET LOCAL statement_timeout = DEFAULT",
    "SET LOCAL lock_timeout = DEFAULT",
  ]

  /// Calls `body` with these users. Where the table refuses the rows of several, or a lock is not granted, with smaller
  /// parts: one bad row fails alone, until the next run.
  private nonisolated(nonsending) func inParts(
    _ users: [UUID], _ table: ProfileTable, _ refused: inout Int,
    _ body: nonisolated(nonsending) ([UUID]) async throws -> Void
  ) async throws {
    var parts = users.isEmpty ? [] : [users]
    while let part = parts.popLast() {
      do {
        try await body(part)
      } catch  where Self.concernsRows(error) {
        if part.count > 1 {
          parts += part.chunked(by: (part.count + Self.smallerParts - 1) / Self.smallerParts)
          continue
        }
        refused += 1
        if refused > Self.mostRefused { throw error }
        let refusal = error as? PostgresError
        logger.warning(
          "free access could not be written to a row; it will be retried",
          metadata: [
            "table": "\(table.destination.rawValue)", "sqlstate": "\(refusal?.sqlState ?? "")",
            "constraint": "\(refusal?.report?.constraint ?? "")",
            "column": "\((error as? UnreadableRow)?.column ?? "")",
          ])
      }
    }
  }

  /// Whether the table refuses a row, or a customer's records cannot be read.
  private static func concernsRows(_ error: any Error) -> Bool {
    error is UnreadableRow || (error as? PostgresError)?.isRefusal ?? false
  }

  /// The row of `free_access_rows` of a user whose row of one of the apps' tables free access opened.
  /// - Parameter user: the column with the user.
  package static func opened(_ table: String, _ user: StaticString) -> Query {
    """
    SELECT FROM free_access_rows f
    WHERE f.table_name = \(table) AND f.user_id = \(unescaped: user)
      AND NOT EXISTS (SELECT FROM backend_writes b WHERE b.table_name = f.table_name AND b.user_id = f.user_id)
    """
  }
}

/// Statements on `free_access_rows` and on the rows of one of the apps' tables.
private struct FreeAccessTableRows {
  private let name: Query
  private let text: String
  private let key: Query
  /// The premium columns as JSON, for ``former``.
  private let values: Query
  /// What tells a row that free access opened, as JSON.
  private let mark: Query
  /// Whether a row gives no access at the instant.
  private let isClosed: Query
  /// Whether free access opened a row of which the end has to move on.
  private let isEnding: @Sendable (Date) -> Query
  private let isMarked: Query
  private let opening: Query
  private let former: Query
  /// A condition on a saved row: the app's table still has the premium of free access.
  private let isUnchanged: Query

  /// - Parameters:
  ///   - instant: rows whose end is not later give no access.
  ///   - end: the end to write.
  ///   - bookmarkLimit: the limit to write.
  init(_ table: ProfileTable, at instant: Date, until end: Date, _ bookmarkLimit: Int) {
    text = table.destination.rawValue
    if table.destination == .profiles {
      name = "profiles"
      key = "id"
      values = """
        jsonb_build_object('premium_expires_at', app.premium_expires_at, 'premium_product_id', app.premium_product_id,
          'premium_original_transaction_id', app.premium_original_transaction_id)
        """
      mark = "jsonb_build_object('premium_product_id', app.premium_product_id)"
      isMarked = "(app.premium_product_id IS NOT DISTINCT FROM \(FreeAccessTables.productID))"
      isClosed = """
        (app.premium_expires_at <= \(instant)
          OR app.premium_expires_at IS NULL AND coalesce(app.premium_product_id, '') = '')
        """
      isEnding = {
        "(app.premium_product_id = \(FreeAccessTables.productID) AND app.premium_expires_at < \($0))"
      }
      // The transaction stays: another user's claim to it is contested as before.
      opening = "premium_expires_at = \(end), premium_product_id = \(FreeAccessTables.productID)"
      former = """
        premium_expires_at = (saved.former ->> 'premium_expires_at')::timestamptz,
          premium_product_id = saved.former ->> 'premium_product_id',
          premium_original_transaction_id = saved.former ->> 'premium_original_transaction_id'
        """
      isUnchanged = "true"
    } else {
      name = "user_preferences"
      key = "user_id"
      values = "jsonb_build_object('is_premium', app.is_premium, 'bookmark_limit', app.bookmark_limit)"
      mark = values
      isMarked = "false"
      isClosed = "(app.is_premium IS NOT TRUE)"
      isEnding = { _ in "false" }
      opening = "is_premium = true, bookmark_limit = \(bookmarkLimit)"
      former = """
        is_premium = (saved.former ->> 'is_premium')::boolean,
          bookmark_limit = (saved.former ->> 'bookmark_limit')::integer
        """
      // The backend's note is of a row that was not premium before.
      isUnchanged = """
        NOT EXISTS (SELECT FROM backend_writes b
          WHERE b.table_name = saved.table_name AND b.user_id = saved.user_id)
        """
    }
  }

  /// Those of these apps for which free access is on (`bundle_id`), the longest first.
  static func open(_ bundleIDs: [String]) -> Query {
    "SELECT bundle_id FROM free_access WHERE bundle_id = ANY(\(bundleIDs)) AND ends_at IS NULL ORDER BY starts_at"
  }

  /// The users of rows to open (`user_id`), in their order.
  func closed(after last: UUID?, before renewal: Date, limit: Int) -> Query {
    """
    SELECT app.\(key) AS user_id FROM \(name) AS app
    WHERE (\(last)::uuid IS NULL OR app.\(key) > \(last)::uuid) AND (\(isClosed) OR \(isEnding(renewal)))
    ORDER BY app.\(key) LIMIT \(limit)
    """
  }

  /// Saves rows and opens them, without rows that are locked. Nothing while free access is off: a switch may have come
  /// meanwhile.
  ///
  /// A row with the mark of free access that nothing was saved for gets no values back.
  func open(_ users: [UUID], before renewal: Date, for bundleID: String, sharedBy bundleIDs: [String])
    -> Query
  {
    """
    WITH page AS MATERIALIZED (
      SELECT app.\(key) AS user_id, CASE WHEN \(isMarked) THEN '{}'::jsonb ELSE \(values) END AS former
      FROM \(name) AS app
      WHERE app.\(key) = ANY(\(users)) AND (\(isClosed) OR \(isEnding(renewal)))
        AND EXISTS (\(Self.open(bundleIDs)))
      ORDER BY app.\(key) FOR NO KEY UPDATE SKIP LOCKED
    ), opened AS (
      UPDATE \(name) AS app SET \(opening) FROM page WHERE app.\(key) = page.user_id
      RETURNING app.\(key) AS user_id, \(mark) AS written)
    INSERT INTO free_access_rows AS known (table_name, user_id, bundle_id, former, written)
    SELECT \(text)::text, page.user_id, \(bundleID)::text, page.former, opened.written
    FROM page JOIN opened ON opened.user_id = page.user_id
    ON CONFLICT (table_name, user_id) DO UPDATE
    SET bundle_id = excluded.bundle_id, former = excluded.former, written = excluded.written
    WHERE excluded.former <> '{}'
    """
  }

  /// Users with a saved row (`user_id`), in their order, of these apps or of apps whose free access is off.
  static func saved(in table: ProfileTable, after last: UUID?, of bundleIDs: [String], limit: Int) -> Query {
    """
    SELECT user_id FROM free_access_rows f
    WHERE table_name = \(table.destination.rawValue) AND (\(last)::uuid IS NULL OR user_id > \(last)::uuid)
      AND (bundle_id = ANY(\(bundleIDs))
        OR NOT EXISTS (SELECT FROM free_access a WHERE a.bundle_id = f.bundle_id AND a.ends_at IS NULL))
    ORDER BY user_id LIMIT \(limit)
    """
  }

  /// Locks the rows of the app's table before the saved ones, in the order of ``open(_:before:for:sharedBy:)``.
  func lock(_ users: [UUID]) -> Query {
    "SELECT FROM \(name) WHERE \(key) = ANY(\(users)) ORDER BY \(key) FOR NO KEY UPDATE"
  }

  /// Gives rows their former values where they still have those of free access, and deletes the saved ones. Nothing if
  /// free access was switched on again.
  /// - Returns: the users whose row was given back (`user_id`).
  func giveBack(_ users: [UUID], sharedBy bundleIDs: [String]) -> Query {
    """
    WITH saved AS (
      DELETE FROM free_access_rows WHERE table_name = \(text) AND user_id = ANY(\(users))
        AND NOT EXISTS (\(Self.open(bundleIDs)))
      RETURNING table_name, user_id, former, written)
    UPDATE \(name) AS app SET \(former) FROM saved
    WHERE app.\(key) = saved.user_id AND \(mark) = saved.written AND \(isUnchanged)
    RETURNING app.\(key) AS user_id
    """
  }

  /// Which of these users have a purchase or a grant with access (`user_id`).
  static func withAccess(among users: [UUID], in bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT user_id FROM subscriptions
    WHERE user_id = ANY(\(users)) AND bundle_id = ANY(\(bundleIDs)) AND status IN ('trial', 'active', 'grace')
    UNION
    SELECT user_id FROM grants
    WHERE user_id = ANY(\(users)) AND bundle_id = ANY(\(bundleIDs)) AND revoked_at IS NULL
      AND (ends_at IS NULL OR ends_at > \(instant))
    """
  }
}
