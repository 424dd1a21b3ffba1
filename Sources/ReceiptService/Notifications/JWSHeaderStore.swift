import FoundationEssentials
import Postgres
import Synchronization

/// The table `jws_headers`: each header kept once, known by its SHA-256.
///
/// Rows are never changed or deleted, so an id that was seen once holds for good and is remembered.
final class JWSHeaderStore: Sendable {
  private let known = Mutex<[[UInt8]: Int32]>([:])

  /// More headers than this would mean that something is wrong with what is a header; the memory is
  /// emptied then, the table still has them.
  private static let capacity = 4_096

  /// Forgets all ids: the table is not the one that they were read from (a backup was restored, a standby
  /// without the last commits was promoted).
  func forget() { known.withLock { $0.removeAll() } }

  /// The ids of the headers of these parts; those not seen before are written in a commit of their own.
  func ids(for parts: [KeptPayload.Part], in pool: PostgresPool) async throws -> JWSHeaderIDs {
    var ids = JWSHeaderIDs()
    var missing: [[UInt8]: [UInt8]] = [:]
    known.withLock { known in
      // Nearly all have the same header, in the same array.
      var last: [UInt8] = []
      for part in parts where part.headerFingerprint != last {
        last = part.headerFingerprint
        if let id = known[part.headerFingerprint] {
          ids.byFingerprint[part.headerFingerprint] = id
        } else {
          missing[part.headerFingerprint] = part.headerSegment
        }
      }
    }
    guard !missing.isEmpty else { return ids }

    // Sorted, so that two servers that write the same headers wait for each other in one order.
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
    for row in rows { found[try row.decode(0)] = try row.decode(1, as: Int32.self) }
    // Only what was just read: what was remembered may have been forgotten meanwhile, for good reason.
    known.withLock { [found] known in
      if known.count + found.count > Self.capacity { known.removeAll() }
      known.merge(found) { _, new in new }
    }
    ids.byFingerprint.merge(found) { _, new in new }
    return ids
  }
}

/// Ids of rows in `jws_headers`, by the SHA-256 of the header.
struct JWSHeaderIDs: Sendable {
  var byFingerprint: [[UInt8]: Int32] = [:]

  subscript(part: KeptPayload.Part) -> Int32? { byFingerprint[part.headerFingerprint] }
}
