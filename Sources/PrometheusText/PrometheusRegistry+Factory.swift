public import CoreMetrics

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
