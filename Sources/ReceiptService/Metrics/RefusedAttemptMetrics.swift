import CoreMetrics
import PrometheusText

/// Counts refused requests that are not kept for support.
struct RefusedAttemptMetrics: Sendable {
  /// The limit that an attempt exceeded.
  enum Limit: String, CaseIterable, Sendable {
    /// Of one address and day, on this server.
    case address
    /// Of the attempts that wait for the next write.
    case buffer
    /// Of one network and day, or of all attempts of a day, on all servers.
    case day
  }

  private let dropped: [Limit: Counter]

  init(_ registry: PrometheusRegistry) {
    dropped = Dictionary(
      uniqueKeysWithValues: Limit.allCases.map { limit in
        (
          limit,
          Counter(
            label: "receiptd_refused_attempts_dropped_total", dimensions: [("limit", limit.rawValue)],
            factory: registry)
        )
      })
  }

  func drop(_ limit: Limit, _ count: Int = 1) { dropped[limit]?.increment(by: count) }
}
