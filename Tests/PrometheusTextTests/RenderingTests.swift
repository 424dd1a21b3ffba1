import CoreMetrics
import PrometheusText
import Testing

extension PrometheusRegistry {
  var text: String { String(decoding: render(), as: UTF8.self) }

  var lines: [String] { text.split(separator: "\n").map(String.init) }
}

@Suite struct RenderingTests {
  @Test func `every kind of metric is rendered in the Prometheus text format`() {
    let registry = PrometheusRegistry()
    let things: MetricFamily<Counter, String, String> = registry.counters(
      "things_total", "Things\nseen, in a \\ \"box\".", "kind", "app")
    let waits: MetricFamily<Recorder, String> = registry.histograms(
      "wait_seconds", "How long.", buckets: [0.1, 1], "route")
    let _: MetricFamily<Counter, String> = registry.counters(
      "never_total", "Nobody measured it.", "kind")
    things["b", "x"].increment(by: 3)
    things["a", "x"].increment()
    registry.gauge("level", "How high.").set(-1.5)
    waits["/a"].record(0.05)
    let timer = Timer(label: "wait_seconds", dimensions: [("route", "/a")], factory: registry)
    timer.recordNanoseconds(500_000_000)
    timer.recordNanoseconds(2_000_000_000)
    _ = registry.counter("cpu_seconds", "How busy.")
    FloatingPointCounter(label: "cpu_seconds", factory: registry).increment(by: 0.25)
    #expect(
      registry.text == #"""
        # HELP cpu_seconds How busy.
        # TYPE cpu_seconds counter
        cpu_seconds 0.25
        # HELP level How high.
        # TYPE level gauge
        level -1.5
        # HELP never_total Nobody measured it.
        # TYPE never_total counter
        # HELP things_total Things\nseen, in a \\ "box".
        # TYPE things_total counter
        things_total{app="x",kind="a"} 1
        things_total{app="x",kind="b"} 3
        # HELP wait_seconds How long.
        # TYPE wait_seconds histogram
        wait_seconds_bucket{route="/a",le="0.1"} 1
        wait_seconds_bucket{route="/a",le="1"} 2
        wait_seconds_bucket{route="/a",le="+Inf"} 3
        wait_seconds_sum{route="/a"} 2.55
        wait_seconds_count{route="/a"} 3

        """#)
  }

  @Test(arguments: [
    ("plain", "plain"), ("a\"b", #"a\"b"#), (#"a\b"#, #"a\\b"#), ("a\nb", #"a\nb"#), ("ü", "ü"),
    ("a\r\nb", "a\r\\nb"), ("\"}\nevil 1\n", #"\"}\nevil 1\n"#),
  ])
  func `a label value is escaped in the Prometheus text`(value: String, written: String) {
    let registry = PrometheusRegistry()
    let counters: MetricFamily<Counter, String> = registry.counters("c", "C.", "l")
    counters[value].increment()
    #expect(registry.lines == ["# HELP c C.", "# TYPE c counter", "c{l=\"\(written)\"} 1"])
  }

  @Test func `metric values are rendered as Prometheus parses them`() {
    let registry = PrometheusRegistry()
    let meter = registry.gauge("m", "M.")
    for (value, text) in [
      (0, "0"), (1e15, "1000000000000000"), (0.1, "0.1"), (1e300, "1e+300"), (.infinity, "+Inf"),
      (-.infinity, "-Inf"), (.nan, "NaN"),
    ] {
      meter.set(value)
      #expect(registry.lines.last == "m \(text)")
    }
  }

  @Test func `the beforeRendering collectors run before each rendering`() {
    let registry = PrometheusRegistry()
    let counter = registry.counter("renderings", "R.")
    registry.beforeRendering { counter.increment() }
    #expect(registry.lines.last == "renderings 1")
    #expect(registry.lines.last == "renderings 2")
  }
}
