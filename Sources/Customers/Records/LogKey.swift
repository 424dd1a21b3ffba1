import Crypto
import Foundation
import Postgres
import Synchronization
import Work

/// Hashes customers' ids for the log, so that support finds a customer's lines and the log names no customer.
///
/// The key is in the table `log_keys`, the same for all servers. A line that is logged before the key was read has no
/// hash.
package final class LogKey: Sendable {
  private let key = Mutex<SymmetricKey?>(nil)

  package init() {}

  /// Reads the key. Without a row, as during a restore, the job tries again.
  package func load(from pool: PostgresPool) async throws {
    guard let row = try await pool.query("SELECT key FROM log_keys").first else {
      throw Missing()
    }
    let bytes = try row.decode("key", as: [UInt8].self)
    key.withLock { $0 = SymmetricKey(data: bytes) }
  }

  /// The table `log_keys` has no row.
  private struct Missing: Error, CustomStringConvertible {
    var description: String { "log_keys has no row" }
  }

  /// The first 16 hexadecimal digits of HMAC-SHA256 of the id as the database writes it; `nil` without the key.
  package func hash(of id: String) -> String? {
    guard let key = key.withLock({ $0 }) else { return nil }
    return HMAC<SHA256>.authenticationCode(for: Data(id.utf8), using: key).prefix(8)
      .map { String(format: "%02x", $0) }.joined()
  }

  /// Reads the key at the start.
  package func job(_ pool: PostgresPool) -> BackgroundJob {
    BackgroundJob("log key", every: .seconds(30)) { try await self.load(from: pool) }
  }
}
