import CoreMetrics
import PrometheusText
import Testing

extension PrometheusRegistry {
  var text: String { String(decoding: render(), as: UTF8.self) }

  var lines: [String] { text.split(separator: "\n").map(String.init) }
}

@Suite struct RenderingTests {
  @Test func `every kind of metric is rendered in the Prometheus text format`() {
    let registry = PrometheusRegistry([
      MetricDescription(.counter, "things_total", help: "Things\nseen, in a \\ \"box\"."),
      MetricDescription(.gauge, "level", help: "How high."),
      MetricDescription(.histogram, "wait_seconds", buckets: [0.1, 1], help: "How long."),
      MetricDescription(.counter, "never_total", help: "Nobody measured it."),
    ])
    Counter(label: "things_total", dimensions: [("kind", "b"), ("app", "x")], factory: registry).increment(
      by: 3)
    Counter(label: "things_total", dimensions: [("app", "x"), ("kind", "a")], factory: registry).increment()
    Meter(label: "level", factory: registry).set(-1.5)
    let timer = Timer(label: "wait_seconds", dimensions: [("route", "/a")], factory: registry)
    timer.recordNanoseconds(50_000_000)
    timer.recordNanoseconds(500_000_000)
    timer.recordNanoseconds(2_000_000_000)
    FloatingPointCounter(label: "cpu.seconds", factory: registry).increment(by: 0.25)
    #expect(
      registry.text == #"""
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
    ("\"}\nevil 1\n", #"\"}\nevil 1\n"#),
  ])
  func `a label value is escaped in the Prometheus text`(value: String, written: String) {
    let registry = PrometheusRegistry()
    Counter(label: "c", dimensions: [("l", value)], factory: registry).increment()
    #expect(registry.lines == ["# TYPE c counter", "c{l=\"\(written)\"} 1"])
  }

  @Test(arguments: [("http.requests", "http_requests"), ("1st", "_1st"), ("a:b", "a:b"), ("", "_")])
  func `characters that a metric or label name may not have become underscores`(label: String, name: String) {
    let registry = PrometheusRegistry()
    Counter(label: label, dimensions: [("x-y", "1"), ("le", "2")], factory: registry).increment()
    #expect(registry.lines.last == "\(name){exported_le=\"2\",x_y=\"1\"} 1")
  }

  @Test func `metric values are rendered as Prometheus parses them`() {
    let registry = PrometheusRegistry()
    let meter = Meter(label: "m", factory: registry)
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
    let counter = Counter(label: "renderings", factory: registry)
    registry.beforeRendering { counter.increment() }
    #expect(registry.lines.last == "renderings 1")
    #expect(registry.lines.last == "renderings 2")
  }
}
