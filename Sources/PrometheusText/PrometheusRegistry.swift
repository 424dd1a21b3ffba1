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
