/// What Prometheus is told of a metric beside its values.
public struct MetricDescription: Sendable, Hashable {
  /// Prometheus's types that this module writes.
  public enum Kind: String, Sendable {
    /// Only grows, until the process starts anew.
    case counter
    /// Goes up and down.
    case gauge
    /// Counts observations by their size, and sums them up.
    case histogram
  }

  /// The name, with its unit and, for a counter, `_total`.
  public var name: String
  /// Which kind of metric it is.
  public var kind: Kind
  /// One sentence for whoever reads the output.
  public var help: String
  /// The upper bounds of a histogram's buckets, which include their bound, in growing order; `+Inf` is added.
  public var buckets: [Double]

  /// From half a millisecond to half a minute, in seconds: what a request may take.
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
