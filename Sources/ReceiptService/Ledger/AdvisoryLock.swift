import Postgres

/// Locks on things rather than rows, held to the end of the transaction.
enum AdvisoryLock {
  /// Different kinds of things never share a lock; each kind is taken after the one before it.
  enum Kind: UInt64 {
    case purchase = 1
    case customer = 2
    case figures = 3
  }

  /// Waits for all of these, in ascending order.
  static func acquire(_ kind: Kind, _ names: Set<String>) -> Query {
    "SELECT pg_advisory_xact_lock(key) FROM unnest(\(keys(kind, names))::bigint[]) AS key"
  }

  /// The same, ``LookupPlans/fromHere`` and a `lock_timeout` for the rest of the transaction, as one statement: the
  /// cost of a small transaction is its statements more than its rows.
  static func acquireForLookups(_ kind: Kind, _ names: Set<String>, lockTimeout: Duration) -> Query {
    """
    SELECT set_config('lock_timeout', \("\(Int(lockTimeout / .milliseconds(1)))ms"), true)
      || \(unescaped: LookupPlans.settings)
    UNION ALL SELECT pg_advisory_xact_lock(key)::text FROM unnest(\(keys(kind, names))::bigint[]) AS key
    """
  }

  /// Takes it unless somebody has it: one row, whether it was taken.
  static func tryAcquire(_ kind: Kind, _ name: String) -> Query {
    "SELECT pg_try_advisory_xact_lock(\(key(kind, name)))"
  }

  /// In the order in which all take them.
  private static func keys(_ kind: Kind, _ names: Set<String>) -> [Int64] {
    Set(names.map { key(kind, $0) }).sorted()
  }

  /// FNV-1a, 64 bits. Two names that share a key only wait for each other without need.
  private static func key(_ kind: Kind, _ name: String) -> Int64 {
    var hash = (0xcbf2_9ce4_8422_2325 as UInt64) ^ kind.rawValue
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return Int64(bitPattern: hash)
  }
}
