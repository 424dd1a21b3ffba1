import CoreMetrics
import Synchronization

/// The metrics of a process: a backend of swift-metrics that writes Prometheus's text format.
///
/// The type that counts a metric declares it here, once. To use a handle costs an atomic addition or, for a histogram,
/// a short lock.
///
/// The number of series of a metric is limited. Values beyond the limit are counted in a series whose labels are all
/// `overflow`, so that sums stay correct and memory stays bounded for any label values.
package final class PrometheusRegistry: Sendable {
  private let state = Mutex(State())
  private let maximumSeries: Int

  private struct State {
    var metrics: [String: Metric] = [:]
    var collectors: [@Sendable () -> Void] = []
  }

  private struct Metric {
    var type: any Series.Type
    var help: String
    var bounds: [Double]
    /// By their labels as text.
    var series: [String: any Series] = [:]
  }

  /// - Parameter seriesPerMetric: the limit of label combinations of one metric.
  package init(seriesPerMetric: Int = 1_000) { maximumSeries = seriesPerMetric }

  /// Declares counters: numbers that only increase until the process restarts. A declared metric is written even
  /// without values.
  /// - Parameters:
  ///   - name: with its unit and `_total`.
  ///   - help: one sentence.
  ///   - labels: the names of the labels, at most four.
  package func counters<each Label>(
    _ name: String, _ help: String, _ labels: repeat LabelName<each Label>
  ) -> MetricFamily<Counter, repeat each Label> {
    declare(CounterSeries.self, name, help)
    return MetricFamily(repeat each labels, atMost: maximumSeries) {
      Counter(label: name, dimensions: $0, factory: self)
    }
  }

  /// Declares gauges: numbers that increase and decrease.
  package func gauges<each Label>(
    _ name: String, _ help: String, _ labels: repeat LabelName<each Label>
  ) -> MetricFamily<Meter, repeat each Label> {
    declare(GaugeSeries.self, name, help)
    return MetricFamily(repeat each labels, atMost: maximumSeries) {
      Meter(label: name, dimensions: $0, factory: self)
    }
  }

  /// Declares histograms, which count and sum observations in buckets.
  /// - Parameter buckets: the inclusive upper bounds in ascending order; `+Inf` is added.
  package func histograms<each Label>(
    _ name: String, _ help: String, buckets: [Double] = latencyBuckets,
    _ labels: repeat LabelName<each Label>
  ) -> MetricFamily<Recorder, repeat each Label> {
    declare(HistogramSeries.self, name, help, buckets)
    return MetricFamily(repeat each labels, atMost: maximumSeries) {
      Recorder(label: name, dimensions: $0, factory: self)
    }
  }

  /// Declares histograms of durations, in seconds. `recordNanoseconds(_:)` is the fastest method of all: it is not
  /// generic.
  package func timers<each Label>(
    _ name: String, _ help: String, _ labels: repeat LabelName<each Label>
  ) -> MetricFamily<CoreMetrics.Timer, repeat each Label> {
    declare(HistogramSeries.self, name, help, Self.latencyBuckets)
    return MetricFamily(repeat each labels, atMost: maximumSeries) {
      Timer(label: name, dimensions: $0, factory: self)
    }
  }

  /// Buckets for the duration of a request, in seconds.
  package static let latencyBuckets: [Double] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
  ]

  /// Declares a counter without labels.
  package func counter(_ name: String, _ help: String) -> Counter { counters(name, help)[] }

  /// Declares a gauge without labels.
  package func gauge(_ name: String, _ help: String) -> Meter { gauges(name, help)[] }

  func declare(_ type: any Series.Type, _ name: String, _ help: String, _ bounds: [Double] = []) {
    let former = state.withLock {
      $0.metrics.updateValue(Metric(type: type, help: help, bounds: bounds), forKey: name)
    }
    precondition(former == nil, "The metric \(name) is declared twice.")
  }

  /// Adds a function that runs before each rendering, to update values on demand. It must not block.
  package func beforeRendering(_ collect: @escaping @Sendable () -> Void) {
    state.withLock { $0.collectors.append(collect) }
  }

  /// All metrics, sorted by name, in text format 0.0.4 (Prometheus documentation, "Exposition formats").
  package func render() -> [UInt8] {
    for collect in state.withLock({ $0.collectors }) { collect() }
    var text = ""
    for (name, metric) in state.withLock({ $0.metrics }).sorted(by: { $0.key < $1.key }) {
      // Quotation marks need no escapes in a help text.
      let help = metric.help.replacing("\\", with: #"\\"#).replacing("\n", with: #"\n"#)
      text += "# HELP \(name) \(help)\n# TYPE \(name) \(metric.type.name)\n"
      for (labels, series) in metric.series.sorted(by: { $0.key < $1.key }) {
        for sample in series.samples {
          let all = [labels, sample.bound.map { "le=\"\($0)\"" } ?? ""].filter { !$0.isEmpty }
          let braces = all.isEmpty ? "" : "{\(all.joined(separator: ","))}"
          text += "\(name)\(sample.suffix)\(braces) \(sample.value)\n"
        }
      }
    }
    return Array(text.utf8)
  }

  /// The sum of a counter's series.
  /// - Parameter matches: tells by the labels as text, such as `code="500",server="clients"`, which series count.
  package func total(of name: String, where matches: (String) -> Bool) -> UInt64 {
    let series = state.withLock { $0.metrics[name]?.series ?? [:] }
    return series.reduce(0) { sum, entry in
      guard matches(entry.key), let counter = entry.value as? CounterSeries else { return sum }
      return sum + counter.count
    }
  }

  /// The counts of a histogram's buckets, not cumulative, summed over its series. The last one has no bound.
  package func buckets(
    of name: String, where matches: (String) -> Bool
  ) -> (bounds: [Double], counts: [UInt64]) {
    let (series, bounds) = state.withLock {
      ($0.metrics[name]?.series ?? [:], $0.metrics[name]?.bounds ?? [])
    }
    var counts = Array(repeating: UInt64(0), count: bounds.count + 1)
    for (labels, one) in series where matches(labels) {
      guard let histogram = one as? HistogramSeries else { continue }
      for (index, count) in histogram.counts.enumerated() { counts[index] += count }
    }
    return (bounds, counts)
  }

  /// The `Content-Type` of ``render()``.
  package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// The series of a metric with these labels in any order, created if it does not exist. That of an undeclared metric,
  /// or of one of another type, is not written: two types under one name would make the output invalid.
  private func series<Wanted: Series>(_ name: String, _ dimensions: [(String, String)]) -> Wanted {
    state.withLock { state in
      guard var metric = state.metrics[name], metric.type == Wanted.self else { return Wanted(bounds: []) }
      var labels = labelText(dimensions)
      if metric.series[labels] == nil, metric.series.count >= maximumSeries {
        labels = labelText(dimensions.map { ($0.0, "overflow") })
      }
      if let known = metric.series[labels] as? Wanted { return known }
      let made = Wanted(bounds: metric.bounds)
      metric.series[labels] = made
      state.metrics[name] = metric
      return made
    }
  }
}

/// The labels of a series in text format, without braces.
private func labelText(_ dimensions: [(String, String)]) -> String {
  dimensions.sorted { $0.0 < $1.0 }.map { name, value in
    // By scalars, because "\r\n" is one Character.
    let escaped = value.unicodeScalars.reduce(into: "") { text, scalar in
      if scalar == "\\" || scalar == "\"" { text += "\\" }
      text += scalar == "\n" ? #"\n"# : String(scalar)
    }
    return "\(name)=\"\(escaped)\""
  }.joined(separator: ",")
}

extension PrometheusRegistry: MetricsFactory {
  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    series(label, dimensions) as CounterSeries
  }

  package func makeFloatingPointCounter(
    label: String, dimensions: [(String, String)]
  ) -> any FloatingPointCounterHandler {
    series(label, dimensions) as CounterSeries
  }

  package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    series(label, dimensions) as GaugeSeries
  }

  package func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    series(label, dimensions) as HistogramSeries
  }

  /// A histogram in seconds.
  package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    series(label, dimensions) as HistogramSeries
  }

  // A series lives as long as the registry: a counter that starts again looks like a restart.
  package func destroyCounter(_ handler: any CounterHandler) {}
  package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
  package func destroyMeter(_ handler: any MeterHandler) {}
  package func destroyRecorder(_ handler: any RecorderHandler) {}
  package func destroyTimer(_ handler: any TimerHandler) {}
}
