/// How long a transaction of the ledger waits for one lock: PostgreSQL's `lock_timeout`.
///
/// Entries that share a transaction also share its waits. A batch therefore gives up early, and its entries are then
/// tried alone, first with hardly a wait. The entries that meet a lock come last, so that the others are not held up.
enum LedgerLockTimeout {
  /// For a batch of several entries.
  static let shared = Duration.milliseconds(250)
  /// For one entry of a batch that failed, while others of the batch come after it.
  static let probe = Duration.milliseconds(5)
  /// For an entry that nothing comes after; the entries of a batch that met locks share it. Longer than the half second
  /// for which a migration or the making of months waits for a table, with every statement on the table behind it.
  static let alone = Duration.milliseconds(750)
}
