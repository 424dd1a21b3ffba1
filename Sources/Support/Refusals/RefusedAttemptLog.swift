import CoreMetrics
import Foundation
import HTTP
import HTTPTypes
import Logging
import Platform
import Postgres
import PrometheusText
import Requests
import Synchronization
import Text
import Work

/// Keeps refused requests for support: a bounded buffer that a job writes to the table `refused_attempts`.
///
/// A request only appends to the buffer, so a flood neither delays nor fails one. Beyond the limits nothing is kept: of
/// each address and day, of each network and day, of each day, and of the buffer.
package final class RefusedAttemptLog: Sendable {
  /// The number of attempts of one address that a server keeps in a day.
  static let perAddress = 30
  /// The number of attempts of one network (``RefusedAttempt/addressPrefix``) that all servers keep in a day.
  static let perNetwork = 300
  /// The number of attempts that all servers keep in a day.
  static let perDay = 20_000
  /// The number of attempts that wait for the next write.
  static let capacity = 1_000
  /// For how long attempts are kept.
  package static let lifetime: TimeInterval = 30 * 86_400

  private struct Buffer {
    var waiting: [RefusedAttempt] = []
    /// The attempts since the last write that were not kept because the buffer was full.
    var dropped = 0
  }

  private let pool: PostgresPool
  private let clock: ServiceClock
  private let logger: Logger
  private let metrics: RefusedAttemptMetrics
  private let buffer = Mutex(Buffer())
  private let addresses = RateLimiter<UInt128>(
    rate: RequestRate(
      oneEach: .seconds(86_400) / RefusedAttemptLog.perAddress, burst: RefusedAttemptLog.perAddress),
    capacity: 8_192)

  package init(pool: PostgresPool, clock: ServiceClock, logger: Logger, metrics: RefusedAttemptMetrics) {
    self.pool = pool
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
  }

  /// Appends a refused request, if its response is 4xx and the limits allow it.
  /// - Returns: the attempt; `nil` if it is not kept.
  package func note(_ request: Request, _ problem: Problem, in apps: AppOfRequest) -> RefusedAttempt? {
    guard (400..<500).contains(problem.status.code) else { return nil }
    guard addresses.take(request.clientAddress.subscriberBits, at: clock.uptime().nanoseconds) == nil else {
      metrics.drop(.address)
      return nil
    }
    let hasRoom = buffer.withLock { buffer in
      guard buffer.waiting.count >= Self.capacity else { return true }
      buffer.dropped += 1
      return false
    }
    guard hasRoom else {
      metrics.drop(.buffer)
      return nil
    }
    let attempt = RefusedAttempt(request, problem, in: apps, at: clock.now())
    buffer.withLock { $0.waiting.append(attempt) }
    return attempt
  }

  /// Writes the buffer every two seconds.
  package var job: BackgroundJob {
    BackgroundJob("refused attempts", every: .seconds(2), retryEvery: .seconds(10)) { try await self.flush() }
  }

  /// Writes the buffer in one statement. While the database is unavailable, the buffer stays.
  package func flush() async throws {
    let (batch, dropped) = buffer.withLock { buffer in
      defer { buffer = Buffer() }
      return (buffer.waiting, buffer.dropped)
    }
    if dropped > 0 {
      logger.notice("refused requests were not kept for support", metadata: ["requests": "\(dropped)"])
    }
    guard !batch.isEmpty else { return }
    do {
      let inserted = try await pool.query(RefusedAttemptRows.insert(batch, on: Day(of: clock.now())))
      metrics.drop(.day, batch.count - inserted.affected)
    } catch let error as PostgresError where error.isAnsweredUnavailable {
      let excess = buffer.withLock { buffer in
        let waiting = batch + buffer.waiting
        buffer.waiting = Array(waiting.prefix(Self.capacity))
        return waiting.count - buffer.waiting.count
      }
      metrics.drop(.buffer, excess)
      throw error
    }
  }
}

/// Counts refused requests that are not kept for support.
package struct RefusedAttemptMetrics: Sendable {
  /// The limit that an attempt exceeded.
  enum Limit: String, CaseIterable, LabelValue {
    /// Of one address and day, on this server.
    case address
    /// Of the attempts that wait for the next write.
    case buffer
    /// Of one network and day, or of all attempts of a day, on all servers.
    case day
  }

  private let dropped: MetricFamily<Counter, Limit>

  package init(_ registry: PrometheusRegistry) {
    dropped = registry.counters(
      "receiptd_refused_attempts_dropped_total",
      "Refused requests that were not kept for support, by the limit that they exceeded.", "limit")
  }

  func drop(_ limit: Limit, _ count: Int = 1) { dropped[limit].increment(by: count) }
}
