/// The `lock_timeout` of the ledger's transactions.
///
/// Entries that share a transaction share its waits. So a batch gives up early, and its entries are then tried alone, first
/// with a very short timeout. Entries that meet a lock come last, so that they do not delay the others, and those that need
/// the same lock wait for it together.
enum LedgerLockTimeout {
  /// For a batch.
  static let shared = Duration.milliseconds(250)
  /// For one entry of a batch that failed, while others of the batch come after it.
  static let probe = Duration.milliseconds(5)
  /// For the entries that need one lock, with no other behind them; the locks that a batch met share it. Longer than the half
  /// second for which a migration waits for a table, with every other statement on that table behind it.
  static let alone = Duration.milliseconds(750)
}
