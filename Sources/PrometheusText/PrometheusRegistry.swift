public import CoreMetrics
import Synchronization

/// A backend for swift-metrics that keeps its values in memory and writes them in Prometheus text format.
///
/// Make each handle (`Counter`, `Meter`, `Recorder`, `Timer`) once with this factory, because that needs a table lookup. To
/// use a handle costs an atomic addition or, for a histogram, a short lock.
///
/// The number of series per metric is limited. Values beyond the limit are counted in a series whose labels are all
/// `overflow`, so that sums stay correct and memory stays bounded for any label values.
public final class PrometheusRegistry: Sendable {
  private let state: Mutex<State>

  private struct State {
    var families: [String: Family] = [:]
    var collectors: [@Sendable () -> Void] = []
  }

  /// - Parameters:
  ///   - descriptions: the metrics that are written even without values.
  ///   - seriesPerMetric: the limit of label combinations of one metric.
  public init(_ descriptions: [MetricDescription] = [], seriesPerMetric: Int = 1_000) {
    maximumSeries = seriesPerMetric
    var state = State()
    for description in descriptions {
      var described = description
      described.name = MetricName.sanitized(description.name)
      state.families[described.name] = Family(described, isDescribed: true)
    }
    self.state = Mutex(state)
  }

  let maximumSeries: Int

  /// Adds a function that runs before each rendering, to update values on demand. It must not block.
  public func beforeRendering(_ collect: @escaping @Sendable () -> Void) {
    state.withLock { $0.collectors.append(collect) }
  }

  /// All metrics, sorted by name, in text format 0.0.4 (Prometheus documentation, "Exposition formats").
  public func render() -> [UInt8] {
    for collect in state.withLock({ $0.collectors }) { collect() }
    let families = state.withLock { Array($0.families.values) }
    var writer = TextWriter()
    for family in families.sorted(by: { $0.description.name < $1.description.name }) {
      writer.write(family)
    }
    return writer.bytes
  }

  /// The `Content-Type` of ``render()``.
  public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// The series of a metric with these labels, created if it does not exist.
  ///
  /// For a name with another type of metric, the series is not written: two types under one name would make the output
  /// invalid.
  func series(_ kind: MetricDescription.Kind, _ label: String, _ dimensions: [(String, String)]) -> Series {
    let name = MetricName.sanitized(label)
    let labels = LabelSet(dimensions)
    return state.withLock { state in
      var family = state.families[name] ?? Family(MetricDescription(kind, name, help: ""), isDescribed: false)
      guard family.description.kind == kind else { return Series(kind, buckets: []) }
      let series = family.series(labels, atMost: maximumSeries)
      state.families[name] = family
      return series
    }
  }

  /// Removes a series.
  func remove(_ handler: AnyObject) {
    state.withLock { state in
      for name in state.families.keys { state.families[name]?.remove(handler) }
    }
  }
}

extension PrometheusRegistry: MetricsFactory {
  /// A counter of integers.
  public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    counter(label, dimensions)
  }

  /// A floating-point counter.
  public func makeFloatingPointCounter(
    label: String, dimensions: [(String, String)]
  ) -> any FloatingPointCounterHandler {
    counter(label, dimensions)
  }

  /// A gauge.
  public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    gauge(label, dimensions)
  }

  /// A histogram, or a gauge of the last value if `aggregate` is false.
  public func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    aggregate ? histogram(label, dimensions) : gauge(label, dimensions)
  }

  /// A histogram in seconds.
  public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    histogram(label, dimensions)
  }

  /// Removes the series.
  public func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
  /// Removes the series.
  public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
  /// Removes the series.
  public func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
  /// Removes the series.
  public func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
  /// Removes the series.
  public func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

  private func counter(_ label: String, _ dimensions: [(String, String)]) -> CounterSeries {
    if case .counter(let series) = series(.counter, label, dimensions) { series } else { CounterSeries() }
  }

  private func gauge(_ label: String, _ dimensions: [(String, String)]) -> GaugeSeries {
    if case .gauge(let series) = series(.gauge, label, dimensions) { series } else { GaugeSeries() }
  }

  private func histogram(_ label: String, _ dimensions: [(String, String)]) -> HistogramSeries {
    if case .histogram(let series) = series(.histogram, label, dimensions) {
      series
    } else {
      HistogramSeries(bounds: [])
    }
  }
}

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
