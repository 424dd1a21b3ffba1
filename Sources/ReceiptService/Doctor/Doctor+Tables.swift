import Postgres

/// Checks of the tables that may be the app's own, and that people edit by hand.
extension Doctor {
  /// Checks types, nullability, unique keys and guard triggers of one table.
  /// - Returns: the faults; none if all is well.
  func faults(of shape: TableShape, _ pool: PostgresPool) async throws -> [CheckResult] {
    let columns = try await describe(TableRows.columns(of: shape.name), pool).map(TableRows.Column.init)
    var faults = typeFaults(shape, columns) + nullFaults(shape, columns)
    let keys = try await describe(TableRows.uniqueKeys(of: shape.name), pool).map(TableRows.UniqueKey.init)
    faults += keyFaults(shape, keys)
    let enabled = Set(
      try await describe(TableRows.enabledTriggers(of: shape.name), pool).map {
        try $0.decode("name", as: String.self)
      })
    for trigger in shape.triggers where !enabled.contains(trigger) {
      faults.append(
        fail(
          shape,
          "the trigger \(trigger) is missing or disabled, so the rules for clients' writes do not hold",
          """
          ALTER TABLE public.\(shape.name) ENABLE TRIGGER \(trigger); if there is none, as the tables' owner, run \
          SELECT receiptd_set_guards()
          """))
    }
    guard !shape.triggers.isEmpty else { return faults }
    faults += defaultFaults(shape, columns)
    if try await pool.query(TableRows.decision)[0].decode("is_callable", as: Bool.self) == false {
      faults.append(
        fail(
          shape,
          "its triggers ask receiptd_writes_premium(), which not every role may run: writes of other roles fail",
          "as the tables' owner, run SELECT receiptd_set_common_rights()"))
    }
    for key in try await describe(TableRows.cascades(to: shape), pool) {
      let name = try key.decode("name", as: String.self)
      faults.append(
        fail(
          shape,
          "the foreign key \(name) changes premium columns with the row to which it refers, and no trigger watches that",
          "ALTER TABLE public.\(shape.name) DROP CONSTRAINT \(name)"))
    }
    for child in try await describe(TableRows.children(of: shape.name), pool) {
      let name = try child.decode("name", as: String.self)
      faults.append(
        fail(
          shape, "\(name) inherits from it: rows there count as its own, and no trigger watches them",
          "ALTER TABLE \(name) NO INHERIT public.\(shape.name)"))
    }
    return faults
  }

  /// Runs a query on PostgreSQL's description of a table, with names and types as they are compared here, whatever
  /// `quote_all_identifiers` the database has.
  private func describe(_ query: Query, _ pool: PostgresPool) async throws -> Rows {
    try await pool.transaction(pipeline: ["SELECT set_config('quote_all_identifiers', 'off', true)", query])[
      1]
  }

  /// Checks the table of subscriptions, which an app may have had before receiptd.
  func subscriptions(_ pool: PostgresPool) async throws -> [CheckResult] {
    let faults = try await faults(of: .subscriptions, pool)
    if !faults.isEmpty { return faults }
    let limit = TableRows.formerLimit
    let former = try await pool.query(TableRows.former).count
    let count = former > limit ? "more than \(limit)" : "\(former)"
    return [
      .ok(
        "table subscriptions",
        "has the columns, types and keys"
          + (former == 0
            ? "" : "; rows from before receiptd that wait for the first fact about them: \(count)"))
    ]
  }

  /// The columns for which the app must give a value when it adds a row.
  func columnsForTheApp(_ shape: TableShape, _ pool: PostgresPool) async throws -> [String] {
    let known = Set(shape.types.map(\.column))
    return try await describe(TableRows.columns(of: shape.name), pool).map(TableRows.Column.init)
      .filter { $0.isRequired && !$0.hasDefault && !known.contains($0.name) }.map(\.name)
  }

  private func typeFaults(_ shape: TableShape, _ columns: [TableRows.Column]) -> [CheckResult] {
    let known = Dictionary(columns.map { ($0.name, $0) }) { first, _ in first }
    return shape.types.compactMap { name, type in
      guard let column = known[name] else {
        return fail(
          shape, "has no \(name)", "ALTER TABLE public.\(shape.name) ADD COLUMN \(name) \(type)")
      }
      // Any type of number does.
      if column.type == type || type == "bigint" && column.isNumber { return nil }
      let utc = type.hasPrefix("timestamp") ? "SET TimeZone = 'UTC'; " : ""
      return fail(
        shape, "\(name) is \(column.type) and must be \(type)",
        "\(utc)ALTER TABLE public.\(shape.name) ALTER COLUMN \(name) TYPE \(type) USING \(name)::\(type)")
    }
  }

  private func nullFaults(_ shape: TableShape, _ columns: [TableRows.Column]) -> [CheckResult] {
    let written = Set(shape.types.map(\.column))
    return columns.compactMap { column in
      guard column.isRequired, !shape.required.contains(column.name) else { return nil }
      if written.contains(column.name) {
        return fail(
          shape, "\(column.name) is NOT NULL, but receiptd writes NULL where there is no value",
          "ALTER TABLE public.\(shape.name) ALTER COLUMN \(column.name) DROP NOT NULL")
      }
      guard shape.isFilledByServer, !column.hasDefault else { return nil }
      return fail(
        shape,
        "\(column.name) is NOT NULL without a default, and receiptd does not know it, so it can add no row",
        "ALTER TABLE public.\(shape.name) ALTER COLUMN \(column.name) DROP NOT NULL, or give it a default")
    }
  }

  /// A sign-up that names no premium column must not make a premium row, which `adopt` takes for a claim.
  private func defaultFaults(_ shape: TableShape, _ columns: [TableRows.Column]) -> [CheckResult] {
    columns.compactMap { column in
      guard let value = column.defaultValue,
        let free = [
          "premium_expires_at": "NULL", "premium_product_id": "NULL",
          "premium_original_transaction_id": "NULL", "is_premium": "false",
        ][column.name],
        ![free, "''"].contains(where: { value == $0 || value.hasPrefix("\($0)::") })
      else { return nil }
      return fail(
        shape, "\(column.name) has the default \(value), with which a row says premium",
        "ALTER TABLE public.\(shape.name) ALTER COLUMN \(column.name) SET DEFAULT \(free), and set \(free) in rows of free users"
      )
    }
  }

  private func keyFaults(_ shape: TableShape, _ keys: [TableRows.UniqueKey]) -> [CheckResult] {
    var faults: [CheckResult] = []
    if !keys.contains(where: { $0.columns == [shape.key] && $0.isUsable }) {
      faults.append(
        fail(
          shape, "has no unique key on \(shape.key), so receiptd can write no row",
          """
          remove duplicates, then CREATE UNIQUE INDEX CONCURRENTLY \(shape.name)_\(shape.key)_key \
          ON public.\(shape.name) (\(shape.key))
          """))
    }
    guard shape.isFilledByServer else { return faults }
    for key in keys where !key.columns.contains("id") && !key.columns.contains(shape.key) {
      faults.append(
        fail(
          shape,
          "the unique key \(key.name) allows one row for each \(key.columns.joined(separator: ", ")) only",
          "drop it"))
    }
    return faults
  }

  private func fail(_ shape: TableShape, _ message: String, _ remedy: String) -> CheckResult {
    .fail("table \(shape.name)", message, remedy)
  }
}

/// Queries on PostgreSQL's description of a table.
private enum TableRows {
  /// Rows beyond this number are not counted.
  static let formerLimit = 10_000

  struct Column {
    var name: String
    /// As in SQL, with its limit if it has one.
    var type: String
    var isNumber: Bool
    var isRequired: Bool
    var hasDefault: Bool
    /// The default as in SQL.
    var defaultValue: String?

    init(_ row: Row) throws {
      name = try row.decode("name")
      type = try row.decode("type")
      isNumber = try row.decode("is_number")
      isRequired = try row.decode("is_required")
      hasDefault = try row.decode("has_default")
      defaultValue = try row.decode("default_value")
    }
  }

  struct UniqueKey {
    var name: String
    /// The columns; an expression counts as a column of its text.
    var columns: [String]
    /// Whether `ON CONFLICT` can use it.
    var isUsable: Bool

    init(_ row: Row) throws {
      name = try row.decode("name")
      columns = try row.decode("columns")
      isUsable = try row.decode("is_usable")
    }
  }

  static func columns(of table: String) -> Query {
    """
    SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, t.typcategory = 'N' AS is_number,
      a.attnotnull AS is_required, a.atthasdef OR a.attidentity <> '' AS has_default,
      pg_get_expr(d.adbin, d.adrelid) AS default_value
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = to_regclass('public.' || \(table)) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
    """
  }

  static func uniqueKeys(of table: String) -> Query {
    """
    SELECT c.relname::text AS name,
      ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, false) FROM generate_series(1, i.indnkeyatts::integer) AS n) AS columns,
      i.indisvalid AND i.indimmediate AND i.indpred IS NULL AS is_usable
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = to_regclass('public.' || \(table)) AND i.indisunique
    ORDER BY c.relname
    """
  }

  /// The guards of the former migration alone, which watch two roles only, do not count.
  static func enabledTriggers(of table: String) -> Query {
    """
    SELECT tgname::text AS name FROM pg_trigger
    WHERE tgrelid = to_regclass('public.' || \(table)) AND tgenabled IN ('O', 'A')
      AND (tgname NOT LIKE 'receiptd_guard_premium%' OR pg_get_triggerdef(oid) LIKE '%receiptd_writes_premium%')
    """
  }

  /// Whether every role may run the functions that the conditions of the guards call.
  static let decision: Query = """
    SELECT bool_and(has_function_privilege('public', oid, 'EXECUTE')) AS is_callable FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND proname = 'receiptd_writes_premium'
    """

  /// The foreign keys by which a change of another row changes premium columns. The triggers watch the key of the user.
  static func cascades(to shape: TableShape) -> Query {
    """
    SELECT DISTINCT quote_ident(c.conname) AS name
    FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
    WHERE c.contype = 'f' AND c.conrelid = to_regclass('public.' || \(shape.name))
      AND (c.confupdtype IN ('c', 'd', 'n') OR c.confdeltype IN ('d', 'n'))
      AND a.attname = ANY (\(shape.types.map(\.column))) AND a.attname <> \(shape.key)
    ORDER BY 1
    """
  }

  /// The tables that inherit from a table. `migrate` refuses a partitioned one.
  static func children(of table: String) -> Query {
    """
    SELECT c.oid::regclass::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('public.' || \(table)) AND NOT c.relispartition ORDER BY 1
    """
  }

  /// The rows from before receiptd. Rows without a fact of Apple's; not those of which `adopt` learned that the App
  /// Store does not know them, nor those that an erasure added.
  static let former: Query = """
    SELECT 1 AS found FROM subscriptions s WHERE bundle_id IS NULL AND erased_at IS NULL
      AND NOT EXISTS (SELECT FROM adoptions a
        WHERE a.original_transaction_id = s.original_transaction_id AND a.outcome = 'unknown')
    LIMIT \(formerLimit + 1)
    """
}

/// The columns, keys and triggers that receiptd needs of a table that may be the app's own.
struct TableShape {
  let name: String
  /// The types of the columns that receiptd reads and writes.
  let types: [(column: String, type: String)]
  /// The columns into which receiptd never writes NULL.
  let required: Set<String>
  /// The column with a unique key, by which receiptd finds the row to update.
  let key: String
  /// Whether only receiptd adds rows, so that every other column needs a default.
  let isFilledByServer: Bool
  /// The triggers of the app's own tables.
  let triggers: [String]

  static let subscriptions = TableShape(
    name: "subscriptions",
    types: types(
      [
        "text":
          """
        original_transaction_id device_id transaction_id product_id tier status bundle_id environment store_status \
        ownership currency kind renews_as upcoming_product_id upcoming_tier owned_because taken_from app_transaction_id \
        erased_as
        """,
        "timestamp with time zone":
          """
        purchase_date expiry_date last_validated_at created_at updated_at status_since grace_expires_at revoked_at \
        signed_at next_change_at store_asked_at old_proof_signed_at old_proof_marked_at \
        old_proof_due_at old_proof_asked_at old_proof_unknown_at erased_at counted_moves_since \
        counted_unproven_moves_since
        """,
        "uuid": "user_id app_account_token", "integer": "counted_moves counted_unproven_moves",
        "boolean": "auto_renew_enabled is_counted",
        "bigint": "price_milliunits", "timestamp with time zone[]": "phase_starts",
        "text[]": "phase_statuses phase_store_statuses erased_tokens",
      ]),
    required: ["original_transaction_id", "created_at", "updated_at"], key: "original_transaction_id",
    isFilledByServer: true, triggers: [])

  static let profiles = TableShape(
    name: "profiles",
    types: types(
      [
        "uuid": "id", "timestamp with time zone": "premium_expires_at",
        "text": "premium_product_id premium_original_transaction_id",
      ]),
    required: ["id"], key: "id", isFilledByServer: false, triggers: clientGuards)

  static let userPreferences = TableShape(
    name: "user_preferences",
    types: types(["uuid": "user_id", "boolean": "is_premium", "bigint": "bookmark_limit"]),
    required: ["user_id", "is_premium", "bookmark_limit"], key: "user_id", isFilledByServer: false,
    triggers: clientGuards)

  /// The triggers of `receiptd_set_guards()`.
  private static let clientGuards = [
    "receiptd_forget_added_change", "receiptd_forget_added_delete", "receiptd_forget_added_truncate",
    "receiptd_forget_added_update",
    "receiptd_guard_premium_insert", "receiptd_guard_premium_update", "receiptd_guard_written_insert",
    "receiptd_guard_written_update", "receiptd_forget_backend_update", "receiptd_note_added_insert",
    "receiptd_note_backend_insert",
    "receiptd_note_backend_update", "receiptd_touch_updated_at",
  ]

  private static func types(_ columns: [String: String]) -> [(column: String, type: String)] {
    columns.flatMap { type, names in names.split(separator: " ").map { (String($0), type) } }
      .sorted { $0.0 < $1.0 }
  }
}
