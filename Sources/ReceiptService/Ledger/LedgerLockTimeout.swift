/// The `lock_timeout` of the ledger's transactions.
///
/// Entries that share a transaction share its waits. So a batch gives up early, and its entries are then tried alone, first
/// with a very short timeout. Entries that meet a lock come last, so that they do not delay the others.
enum LedgerLockTimeout {
  /// For a batch of several entries.
  static let shared = Duration.milliseconds(250)
  /// For one entry of a batch that failed, while others of the batch come after it.
  static let probe = Duration.milliseconds(5)
  /// For an entry with no other behind it; the entries of a batch that met locks share it. Longer than the half second
  /// for which a migration waits for a table, with every other statement on that table behind it.
  static let alone = Duration.milliseconds(750)
}
