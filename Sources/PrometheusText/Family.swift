/// A metric family: all series of one metric.
struct Family: Sendable {
  let description: MetricDescription
  /// Whether the family has a help text.
  let isDescribed: Bool
  private(set) var series: [LabelSet: Series] = [:]

  init(_ description: MetricDescription, isDescribed: Bool) {
    self.description = description
    self.isDescribed = isDescribed
  }

  /// The series with these labels, or the overflow series beyond the limit.
  mutating func series(_ labels: LabelSet, atMost maximum: Int) -> Series {
    if let known = series[labels] { return known }
    let wanted = series.count < maximum ? labels : labels.overflowing
    if let known = series[wanted] { return known }
    let made = Series(description.kind, buckets: description.buckets)
    series[wanted] = made
    return made
  }

  mutating func remove(_ handler: AnyObject) {
    series = series.filter { $0.value.handler !== handler }
  }
}

/// The values of one combination of labels.
enum Series: Sendable {
  case counter(CounterSeries)
  case gauge(GaugeSeries)
  case histogram(HistogramSeries)

  init(_ kind: MetricDescription.Kind, buckets: [Double]) {
    switch kind {
    case .counter: self = .counter(CounterSeries())
    case .gauge: self = .gauge(GaugeSeries())
    case .histogram: self = .histogram(HistogramSeries(bounds: buckets))
    }
  }

  var handler: AnyObject {
    switch self {
    case .counter(let series): series
    case .gauge(let series): series
    case .histogram(let series): series
    }
  }
}
