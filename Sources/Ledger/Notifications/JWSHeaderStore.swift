import Foundation
import Postgres
import Synchronization

/// Stores each JWS header once, in the table `jws_headers`, and caches the ids by SHA-256.
///
/// receiptd never changes or deletes a row, so cached ids stay valid until a backup is restored (``forget()``).
final class JWSHeaderStore: Sendable {
  private let cache = Mutex<[[UInt8]: Int32]>([:])

  /// A full cache is emptied. The App Store uses few headers, so this happens only if something is wrong.
  private static let capacity = 4_096

  /// Empties the cache, because the table has changed: a backup was restored, or a standby without the last commits was
  /// promoted.
  func forget() { cache.withLock { $0.removeAll() } }

  /// The ids of the headers of these parts. New headers are inserted in a transaction of their own.
  func ids(for parts: [KeptPayload.Part], in pool: PostgresPool) async throws -> JWSHeaderIDs {
    var ids = JWSHeaderIDs()
    var missing: [[UInt8]: [UInt8]] = [:]
    cache.withLock { cache in
      // Nearly all parts have the same header in the same array, so this comparison is cheap.
      var last: [UInt8] = []
      for part in parts where part.headerFingerprint != last {
        last = part.headerFingerprint
        if let id = cache[part.headerFingerprint] {
          ids.byFingerprint[part.headerFingerprint] = id
        } else {
          missing[part.headerFingerprint] = part.headerSegment
        }
      }
    }
    guard !missing.isEmpty else { return ids }

    // Sorted, so that servers that insert the same headers cannot deadlock.
    let fingerprints = missing.keys.sorted { $0.lexicographicallyPrecedes($1) }
    let headers = fingerprints.map { String(decoding: missing[$0] ?? [], as: UTF8.self) }
    _ = try await pool.query(
      """
      INSERT INTO jws_headers (header, sha256)
      SELECT * FROM unnest(\(headers)::text[], \(fingerprints)::bytea[])
      ON CONFLICT (sha256) DO NOTHING
      """)
    let rows = try await pool.query(
      "SELECT sha256, id FROM jws_headers WHERE sha256 = ANY(\(fingerprints))")
    var found: [[UInt8]: Int32] = [:]
    for row in rows { found[try row.decode("sha256")] = try row.decode("id", as: Int32.self) }
    // Merge only the new rows: `forget()` may have emptied the cache meanwhile.
    cache.withLock { [found] cache in
      if cache.count + found.count > Self.capacity { cache.removeAll() }
      cache.merge(found) { _, new in new }
    }
    ids.byFingerprint.merge(found) { _, new in new }
    return ids
  }
}

/// Ids of rows in `jws_headers` by the SHA-256 of the header.
struct JWSHeaderIDs: Sendable {
  var byFingerprint: [[UInt8]: Int32] = [:]

  subscript(part: KeptPayload.Part) -> Int32? { byFingerprint[part.headerFingerprint] }
}
