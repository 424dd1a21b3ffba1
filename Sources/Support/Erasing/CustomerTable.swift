import Postgres

/// A table, and what the export and the erasure of a customer do with its rows.
///
/// ``all`` has a rule for every table and names every column of the tables that have rows about customers. A test compares it
/// with the database, so a table or a column without a rule fails.
struct CustomerTable: Sendable {
  let name: String
  /// What erasing does, for `--dry-run` and docs/privacy.md.
  let rule: String
  /// The columns, separated by spaces; empty for a table without rows about customers.
  let columns: String
  /// The rows of the customer, for the export; `nil` for none.
  let export: (@Sendable (ErasedCustomer) -> Query)?
  /// The statements that erase the customer. They run in the order of the tables.
  let erase: @Sendable (ErasedCustomer) -> [Query]
  /// The statements that remove the customer's id from rows of other customers.
  let eraseFromOthers: @Sendable (ErasedCustomer) -> [Query]

  init(
    _ name: String, _ rule: String, columns: String,
    export: (@Sendable (ErasedCustomer) -> Query)? = nil,
    erase: @escaping @Sendable (ErasedCustomer) -> [Query],
    eraseFromOthers: @escaping @Sendable (ErasedCustomer) -> [Query] = { _ in [] }
  ) {
    self.name = name
    self.rule = rule
    self.columns = columns
    self.export = export
    self.erase = erase
    self.eraseFromOthers = eraseFromOthers
  }

  /// A table without rows about customers.
  private init(impersonal name: String) {
    self.init(name, "no rows about customers", columns: "") { _ in [] }
  }

  /// The tables that are counted, configured or technical.
  private static let impersonal = [
    // It has digests of ids, until the day after. An erasure that deleted them would hold up all events of the app.
    "customer_event_bytes",
    "adoption_runs", "client_write_modes", "configured_apps", "entitlement_keys", "event_bytes_daily",
    "free_access", "jws_headers", "kpi_daily_cohorts", "kpi_daily_figures", "kpi_daily_money",
    "kpi_acquisition_costs", "kpi_daily_prices", "kpi_daily_trials", "kpi_daily_value", "kpi_days",
    "kpi_events_daily",
    "kpi_late_facts", "kpi_losses_daily", "log_keys", "outbox_destinations", "reconcile_positions",
    // They are of the team, not of customers.
    "console_sessions", "people", "people_tokens",
    // It has ids of purchases, which stay.
    "reconcile_runs", "retention_positions", "schema_migrations", "servers",
  ].map(CustomerTable.init(impersonal:))

  /// Every table of receiptd.
  ///
  /// Add a new table here: to ``impersonal``, or with its own rule in the order of erasing.
  static let all =
    purchaseTables + customerTables + supportTables + impersonal
}
