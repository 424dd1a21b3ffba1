import CoreMetrics
import PrometheusText
import Testing

@Suite struct SeriesTests {
  private enum Size: String, CaseIterable, LabelValue {
    case small = "s"
    case large = "l"
  }

  @Test func `all series of closed labels exist from the declaration on`() {
    let registry = PrometheusRegistry()
    let counters: MetricFamily<Counter, Size, Size> = registry.counters("c", "C.", "b", "a")
    counters[.large, .small].increment()
    #expect(
      registry.lines.dropFirst(2) == [
        #"c{a="l",b="l"} 0"#, #"c{a="l",b="s"} 0"#, #"c{a="s",b="l"} 1"#, #"c{a="s",b="s"} 0"#,
      ])
  }

  @Test func `metric handles with the same labels share a series, in any order of the labels`() {
    let registry = PrometheusRegistry()
    let counters: MetricFamily<Counter, String, String> = registry.counters("c", "C.", "b", "a")
    counters["2", "1"].increment()
    Counter(label: "c", dimensions: [("b", "2"), ("a", "1")], factory: registry).increment()
    #expect(registry.lines.last == #"c{a="1",b="2"} 2"#)
  }

  @Test func `a metric beyond its maximum of series counts in the series overflow`() {
    let registry = PrometheusRegistry(seriesPerMetric: 3)
    let counters: MetricFamily<Counter, String, String> = registry.counters("c", "C.", "user", "kind")
    let others: MetricFamily<Counter, String> = registry.counters("other", "O.", "user")
    for user in 0..<1_000 { counters["\(user)", "k"].increment() }
    counters["1", "k"].increment()
    others["1"].increment()
    #expect(
      registry.lines.filter { !$0.hasPrefix("# HELP") } == [
        "# TYPE c counter", #"c{kind="k",user="0"} 1"#, #"c{kind="k",user="1"} 2"#,
        #"c{kind="k",user="2"} 1"#,
        #"c{kind="overflow",user="overflow"} 997"#, "# TYPE other counter", #"other{user="1"} 1"#,
      ])
  }

  @Test func `a metric name has one kind, and handles of another kind do nothing`() {
    let registry = PrometheusRegistry()
    registry.counter("c", "C.").increment()
    Meter(label: "c", factory: registry).set(5)
    Counter(label: "undeclared", factory: registry).increment()
    #expect(registry.lines == ["# HELP c C.", "# TYPE c counter", "c 1"])
  }

  @Test func `a counter ignores negative and invalid increments`() {
    let registry = PrometheusRegistry()
    let counter = registry.counter("c", "C.")
    counter.increment(by: 5)
    counter.increment(by: -3)
    _ = registry.counter("f", "F.")
    let amounts = FloatingPointCounter(label: "f", factory: registry)
    amounts.increment(by: 0.5)
    amounts.increment(by: -0.25)
    amounts.increment(by: Double.nan)
    #expect(registry.lines.filter { !$0.hasPrefix("#") } == ["c 5", "f 0.5"])
  }

  @Test(arguments: [
    (0.0, 0), (0.1, 0), (0.1.nextUp, 1), (1.0, 1), (1.0.nextUp, 2), (Double.infinity, 2), (-1.0, 0),
  ])
  func `a histogram bucket includes its upper bound`(value: Double, bucket: Int) {
    let registry = PrometheusRegistry()
    registry.histograms("h", "H.", buckets: [0.1, 1])[].record(value)
    let counts = registry.lines.filter { $0.hasPrefix("h_bucket") }.map { $0.hasSuffix(" 1") }
    #expect(counts == (0..<3).map { $0 >= bucket })
  }

  @Test func `concurrent updates lose no count, and a rendered histogram is consistent`() async {
    let registry = PrometheusRegistry()
    let counters: MetricFamily<Counter, String> = registry.counters("c", "C.", "l")
    let meter = registry.gauge("m", "M.")
    let recorder = registry.histograms("h", "H.", buckets: [0.5])[]
    _ = registry.counter("f", "F.")
    let (tasks, each) = (8, 5_000)
    await withTaskGroup { group in
      for task in 0..<tasks {
        group.addTask {
          let amounts = FloatingPointCounter(label: "f", factory: registry)
          for _ in 0..<each {
            counters["1"].increment()
            amounts.increment(by: 0.5)
            meter.increment(by: 2)
            meter.decrement(by: 1)
            recorder.record(task.isMultiple(of: 2) ? 0 : 1)
          }
        }
      }
      group.addTask {
        for _ in 0..<50 {
          let lines = registry.lines
          let total = lines.first { $0.hasPrefix("h_count ") }?.dropFirst("h_count ".count)
          let sum = lines.first { $0.hasPrefix("h_sum ") }?.dropFirst("h_sum ".count)
          let low = lines.first { $0.hasPrefix("h_bucket{le=\"0.5\"}") }?.split(separator: " ").last
          guard let total = total.flatMap({ Int($0) }), let sum = sum.flatMap({ Int($0) }),
            let low = low.flatMap({ Int($0) })
          else { continue }
          #expect(low + sum == total)
        }
      }
    }
    let expected = tasks * each
    #expect(registry.lines.contains("c{l=\"1\"} \(expected)"))
    #expect(registry.lines.contains("f \(expected / 2)"))
    #expect(registry.lines.contains("m \(expected)"))
    #expect(registry.lines.contains("h_bucket{le=\"0.5\"} \(expected / 2)"))
    #expect(registry.lines.contains("h_bucket{le=\"+Inf\"} \(expected)"))
    #expect(registry.lines.contains("h_sum \(expected / 2)"))
  }

  @Test func `a reader in the process sums the series that it names`() {
    let registry = PrometheusRegistry()
    let codes: MetricFamily<Counter, String, String> = registry.counters("c_total", "help", "server", "code")
    for (server, code, count) in [("a", "200", 5), ("a", "500", 2), ("a", "503", 1), ("b", "500", 7)] {
      codes[server, code].increment(by: count)
    }
    #expect(
      registry.total(of: "c_total") { $0.contains("server=\"a\"") && $0.contains("code=\"5") } == 3)
    #expect(registry.total(of: "c_total") { _ in true } == 15)
    #expect(registry.total(of: "unknown") { _ in true } == 0)
    let times: MetricFamily<CoreMetrics.Timer, String> = registry.timers("t_seconds", "help", "server")
    times["a"].recordNanoseconds(400_000)
    times["a"].recordNanoseconds(31_000_000_000)
    times["b"].recordNanoseconds(400_000)
    let (bounds, counts) = registry.buckets(of: "t_seconds") { $0.contains("server=\"a\"") }
    #expect(bounds == PrometheusRegistry.latencyBuckets)
    #expect(counts.first == 1 && counts.last == 1 && counts.reduce(0, +) == 2)
  }
}
