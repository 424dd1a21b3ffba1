import Postgres

/// Transaction-level advisory locks, which lock names and not rows.
///
/// The highest byte of a key is its kind, so two kinds never share a key. Everything that takes an advisory lock is
/// listed here:
///
/// | highest byte | locks | until the end of |
/// |---|---|---|
/// | 0 | numbers in SQL text: `MigrationTable.lock` ("migrate" in ASCII), the functions of retention ("forget" in ASCII) | the transaction |
/// | 1 | a purchase, or a notification about none | the transaction |
/// | 2 | a customer, or the Apple Account of an app's customer | the transaction |
/// | 3 | the counting of KPIs | the transaction |
/// | 4 | the begin of an adoption | the transaction |
/// | 5 | the children's devices of a purchase or a trial | the transaction |
///
/// A fixed order prevents deadlocks: purchases before customers, and these before children's devices. "migrate",
/// "forget", KPIs and adoptions are locked alone. A transaction takes all keys of one kind in one statement, in
/// ascending order. A transaction that takes only free locks waits for none, in any order.
package enum AdvisoryLock {
  /// The kind of thing that is locked.
  package enum Kind: UInt8, CaseIterable {
    case purchase = 1
    case customer = 2
    case figures = 3
    case adoption = 4
    case household = 5

    /// The keys that locks of this kind can have.
    var keys: ClosedRange<Int64> {
      let first = Int64(rawValue) << AdvisoryLock.bitsOfName
      return first...(first | AdvisoryLock.maskOfName)
    }
  }

  /// The keys that are numbers in SQL text: at most seven ASCII characters.
  static let fixedKeys: ClosedRange<Int64> = 0...maskOfName

  /// Waits for all of these, in ascending order.
  package static func acquire(_ kind: Kind, _ names: Set<String>) -> Query {
    "SELECT pg_advisory_xact_lock(key) FROM unnest(\(keys(kind, names))::bigint[]) AS key"
  }

  /// The same with a `lock_timeout`, as one statement.
  /// - Parameter later: the `lock_timeout` of the rest of the transaction; `nil` for the same one.
  package static func acquire(
    _ kind: Kind, _ names: Set<String>, lockTimeout: Duration, later: Duration? = nil
  ) -> Query {
    """
    SELECT set_config('lock_timeout', \(milliseconds(lockTimeout)), true)
    UNION ALL SELECT pg_advisory_xact_lock(key)::text FROM unnest(\(keys(kind, names))::bigint[]) AS key
    UNION ALL SELECT set_config('lock_timeout', \(milliseconds(later ?? lockTimeout)), true)
    """
  }

  /// The `lock_timeout` of a transaction.
  static func limit(_ lockTimeout: Duration) -> Query {
    "SELECT set_config('lock_timeout', \(milliseconds(lockTimeout)), true)"
  }

  private static func milliseconds(_ duration: Duration) -> String { "\(Int(duration / .milliseconds(1)))ms" }

  /// The same with ``LookupPlans/useIndexScans`` and a `lock_timeout` for the rest of the transaction, as one
  /// statement: a small transaction costs more for its statements than for its rows.
  package static func acquireForLookups(_ kind: Kind, _ names: Set<String>, lockTimeout: Duration) -> Query {
    """
    SELECT set_config('lock_timeout', \(milliseconds(lockTimeout)), true)
      || \(unescaped: LookupPlans.settings)
    UNION ALL SELECT pg_advisory_xact_lock(key)::text FROM unnest(\(keys(kind, names))::bigint[]) AS key
    """
  }

  /// Takes the lock unless another transaction has it: one row, whether it was taken (`is_taken`).
  package static func tryAcquire(_ kind: Kind, _ name: String) -> Query {
    "SELECT pg_try_advisory_xact_lock(\(key(kind, name))) AS is_taken"
  }

  /// Takes those of the locks that no other transaction has: a row for each name whose lock was taken (`name`).
  package static func tryAcquire(_ kind: Kind, _ names: Set<String>) -> Query {
    let names = names.sorted()
    return """
      SELECT name FROM unnest(\(names)::text[], \(names.map { key(kind, $0) })::bigint[]) AS lock (name, key)
      WHERE pg_try_advisory_xact_lock(key)
      """
  }

  /// In ascending order.
  package static func keys(_ kind: Kind, _ names: Set<String>) -> [Int64] {
    Set(names.map { key(kind, $0) }).sorted()
  }

  private static let bitsOfName: Int64 = 56
  private static let maskOfName: Int64 = 1 << bitsOfName - 1

  /// The kind, and below it the 64-bit FNV-1a hash of the name, folded to 56 bits. Two names that share a key wait for
  /// each other, which does no other harm.
  static func key(_ kind: Kind, _ name: String) -> Int64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    let folded = hash ^ (hash >> UInt64(bitsOfName))
    return kind.keys.lowerBound | (Int64(truncatingIfNeeded: folded) & maskOfName)
  }
}

/// Planner settings for statements that find rows by their keys.
///
/// Such a statement has one good plan, an index scan, for tables and key lists of any size. By default PostgreSQL plans
/// each call again, which takes longer than to run the plan; or it keeps a sequential scan that it chose while the
/// table was empty, until the next ANALYZE.
package enum LookupPlans {
  /// Until the end of the transaction, plans are generic and use index scans. Disabled sequential scans inflate cost
  /// estimates, so JIT and parallel plans are disabled too: they would trigger on them, and to start two workers takes
  /// 10 ms.
  ///
  /// Bitmap scans pay off for thousands of rows. Here the planner would choose them for an estimate of ten, which costs
  /// a tenth of the database's time for a lone transaction. Only a bitmap scan can combine two indexes, so no statement
  /// here may have an OR over two indexed columns.
  package static let useIndexScans: Query = "SELECT \(unescaped: settings)"

  /// The same, as an expression.
  static let settings: StaticString = """
    set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true)
      || set_config('enable_bitmapscan', 'off', true) || set_config('jit', 'off', true)
      || set_config('max_parallel_workers_per_gather', '0', true)
    """
}

/// The `lock_timeout` of transactions that take advisory locks.
///
/// Entries that share a transaction share its waits. So a batch gives up early, and its entries are then tried alone,
/// first with a very short timeout. Entries that meet a lock are set aside, so that they do not delay the others.
package enum LockTimeout {
  /// For a batch.
  package static let shared = Duration.milliseconds(100)
  /// For one entry of a batch that failed, while others of the batch come after it.
  package static let probe = Duration.milliseconds(5)
  /// For a group of entries that was set aside; the groups that wait share it. Longer than the half second for which a
  /// migration waits for a table, with every other statement on that table behind it.
  package static let alone = Duration.milliseconds(750)
}

extension PostgresPool {
  /// Runs one statement as a transaction. It waits for a row for at most `lockTimeout`, and then fails with 55P03.
  package nonisolated(nonsending) func query(_ query: Query, lockTimeout: Duration) async throws -> Rows {
    try await transaction(pipeline: [AdvisoryLock.limit(lockTimeout), query])[1]
  }
}
