import Foundation
import Platform
import Postgres
import PrometheusText
import Synchronization
import Work

/// The heartbeat of this server: a row of the table `servers` that says what it is, and how it fared in the last
/// minute. So any server shows all of them.
package final class Heartbeat: Sendable {
  /// Random, new with each start.
  private let id = UUID()
  private let name: String
  private let startedAt: Date
  private let metrics: ServiceMetrics
  private let pool: PostgresPool
  private let clock: ServiceClock
  private let recent = Mutex<[Reading]>([])
  /// Whether there is a row to delete.
  private let isWritten = Atomic(false)

  /// How often the row is written.
  private static let interval = Duration.seconds(15)
  /// The figures are of about this time.
  private static let window = Duration.seconds(60)
  /// The row of a server that died goes after this time, in seconds.
  private static let memory: TimeInterval = 86_400

  /// What the counters of the client port had at an instant.
  private struct Reading {
    let uptime: UInt64
    let errors: UInt64
    let bounds: [Double]
    let buckets: [UInt64]
  }

  /// The figures of about the last minute.
  struct Figures: Equatable {
    var requestsPerSecond: Double
    var serverErrors: Int
    /// To the next bound of the histogram; `nil` without a request.
    var p99: Double?
  }

  init(port: UInt16, metrics: ServiceMetrics, pool: PostgresPool, clock: ServiceClock) {
    var name = [CChar](repeating: 0, count: 256)
    let host =
      gethostname(&name, name.count - 1) == 0
      ? String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self) : "server"
    self.name = "\(host):\(port)"
    startedAt = clock.now()
    self.metrics = metrics
    self.pool = pool
    self.clock = clock
  }

  /// Writes the row, every 15 seconds.
  /// - Parameter configuration: the digest of the configuration in use.
  func job(configuration: String) -> BackgroundJob {
    BackgroundJob("heartbeat", every: Self.interval) { try await self.beat(configuration: configuration) }
  }

  /// Writes the row once.
  package func beat(configuration: String) async throws {
    let instant = clock.now()
    let figures = figures()
    // Before the statement: a row without an answer may be there.
    isWritten.store(true, ordering: .relaxed)
    _ = try await pool.query(
      """
      WITH silent AS (
        DELETE FROM servers WHERE seen_at < \(instant.addingTimeInterval(-Self.memory)) AND id <> \(id)
      )
      INSERT INTO servers (id, name, version, configuration, started_at, seen_at, requests_per_second, server_errors, p99_seconds,
        open_circuits)
      VALUES (\(id), \(name), \(BuildInfo.current.version), \(configuration), \(startedAt), \(instant),
        \(figures?.requestsPerSecond)::double precision, \(figures?.serverErrors)::bigint, \(figures?.p99)::double precision,
        \(metrics.store.openCircuits)::text[])
      ON CONFLICT (id) DO UPDATE SET configuration = EXCLUDED.configuration, seen_at = EXCLUDED.seen_at,
        requests_per_second = EXCLUDED.requests_per_second, server_errors = EXCLUDED.server_errors,
        p99_seconds = EXCLUDED.p99_seconds, open_circuits = EXCLUDED.open_circuits
      """)
  }

  /// Deletes the row: the server stops.
  func stop() async throws {
    guard isWritten.load(ordering: .relaxed) else { return }
    _ = try await pool.query("DELETE FROM servers WHERE id = \(id)")
  }

  /// Reads the counters and compares them with those of about a minute ago.
  /// - Returns: `nil` at the first reading.
  func figures() -> Figures? {
    let now = reading()
    let former = recent.withLock { readings -> Reading? in
      // The oldest one that is kept is at least a minute old, once there are so many.
      let oldest = now.uptime - min(now.uptime, UInt64(Self.window / .nanoseconds(1)))
      while readings.count > 1, readings[1].uptime <= oldest { readings.removeFirst() }
      readings.append(now)
      return readings.count > 1 ? readings[0] : nil
    }
    guard let former, now.uptime > former.uptime else { return nil }
    let counts = zip(now.buckets, former.buckets).map { $0 - min($0, $1) }
    let total = counts.reduce(0, +)
    var figures = Figures(
      requestsPerSecond: Double(total) / (Double(now.uptime - former.uptime) / 1e9),
      serverErrors: Int(now.errors - min(now.errors, former.errors)))
    guard total > 0, let last = now.bounds.last else { return figures }
    var rest = total - total / 100
    let place = counts.firstIndex { count in
      guard rest > count else { return true }
      rest -= count
      return false
    }
    figures.p99 = place.map { $0 < now.bounds.count ? now.bounds[$0] : last }
    return figures
  }

  private func reading() -> Reading {
    func isOfClients(_ labels: String) -> Bool { labels.contains("server=\"clients\"") }
    let errors = metrics.registry.total(of: RequestFamilies.responses) { labels in
      isOfClients(labels) && labels.contains("code=\"5") && !labels.contains("code=\"501\"")
        && !labels.contains("code=\"505\"")
    }
    let buckets = metrics.registry.buckets(of: RequestFamilies.durations, where: isOfClients)
    return Reading(
      uptime: clock.uptime().nanoseconds, errors: errors, bounds: buckets.bounds, buckets: buckets.counts)
  }
}
