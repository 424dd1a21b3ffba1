import Synchronization

/// A backend for swift-metrics that keeps its values in memory and writes them as Prometheus text.
///
/// Whoever measures makes a handle (`Counter`, `Meter`, `Recorder`, `Timer`) with this as its factory and keeps it: making
/// one looks for its series in a table, using one is an atomic addition or, for a histogram, a short lock.
///
/// The number of series is bounded. What would be one too many of a metric is counted in a series of which every label
/// is `overflow`, so that sums stay right and memory stays where it is, whatever somebody puts into a label.
public final class PrometheusRegistry: Sendable {
  private let state: Mutex<State>

  private struct State {
    var families: [String: Family] = [:]
    var collectors: [@Sendable () -> Void] = []
  }

  /// - Parameters:
  ///   - descriptions: of metrics that are listed even while nobody has measured anything.
  ///   - seriesPerMetric: the most combinations of label values that one metric may have.
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

  /// Calls `collect` before each rendering: for what is cheaper to look up when somebody asks than to keep up to date.
  /// It must not wait.
  public func beforeRendering(_ collect: @escaping @Sendable () -> Void) {
    state.withLock { $0.collectors.append(collect) }
  }

  /// Everything as Prometheus text, format 0.0.4 (Prometheus documentation, "Exposition formats"), by name.
  public func render() -> [UInt8] {
    for collect in state.withLock({ $0.collectors }) { collect() }
    let families = state.withLock { Array($0.families.values) }
    var writer = TextWriter()
    for family in families.sorted(by: { $0.description.name < $1.description.name }) {
      writer.write(family)
    }
    return writer.bytes
  }

  /// The `Content-Type` of what ``render()`` gives.
  public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// The series of a metric with these labels, made if there is none.
  ///
  /// A name that is in use for another kind of metric gives a series that nobody sees: two kinds under one name would make
  /// the whole output unreadable.
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

  /// Forgets a series.
  func remove(_ handler: AnyObject) {
    state.withLock { state in
      for name in state.families.keys { state.families[name]?.remove(handler) }
    }
  }
}
