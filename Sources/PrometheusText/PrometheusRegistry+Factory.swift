public import CoreMetrics

extension PrometheusRegistry: MetricsFactory {
  /// A counter of whole things.
  public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    counter(label, dimensions)
  }

  /// A counter of amounts.
  public func makeFloatingPointCounter(
    label: String, dimensions: [(String, String)]
  ) -> any FloatingPointCounterHandler {
    counter(label, dimensions)
  }

  /// A gauge.
  public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    gauge(label, dimensions)
  }

  /// A histogram, or a gauge of the last value where values are not to be aggregated.
  public func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    aggregate ? histogram(label, dimensions) : gauge(label, dimensions)
  }

  /// A histogram in seconds.
  public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    histogram(label, dimensions)
  }

  /// Takes the series out of the output.
  public func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
  /// Takes the series out of the output.
  public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
  /// Takes the series out of the output.
  public func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
  /// Takes the series out of the output.
  public func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
  /// Takes the series out of the output.
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
