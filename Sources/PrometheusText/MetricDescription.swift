/// The metadata of a metric.
public struct MetricDescription: Sendable, Hashable {
  /// The supported Prometheus types.
  public enum Kind: String, Sendable {
    /// A number that only increases until the process restarts.
    case counter
    /// A number that increases and decreases.
    case gauge
    /// Counts and sums observations in buckets.
    case histogram
  }

  /// The name, with its unit and, for a counter, `_total`.
  public var name: String
  /// The type of the metric.
  public var kind: Kind
  /// The help text, one sentence.
  public var help: String
  /// The inclusive upper bounds of a histogram's buckets in ascending order; `+Inf` is added.
  public var buckets: [Double]

  /// Buckets for the duration of a request, in seconds: from half a millisecond to half a minute.
  public static let latencyBuckets: [Double] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
  ]

  /// Describes a metric.
  public init(_ kind: Kind, _ name: String, buckets: [Double] = Self.latencyBuckets, help: String) {
    self.name = name
    self.kind = kind
    self.help = help
    self.buckets = buckets
  }
}
