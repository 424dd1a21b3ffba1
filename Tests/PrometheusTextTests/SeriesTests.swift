import CoreMetrics
import PrometheusText
import Testing

@Suite struct SeriesTests {
  @Test func `metric handles with the same labels share a series, in any order of the labels`() {
    let registry = PrometheusRegistry()
    Counter(label: "c", dimensions: [("a", "1"), ("b", "2")], factory: registry).increment()
    Counter(label: "c", dimensions: [("b", "2"), ("a", "1")], factory: registry).increment()
    #expect(registry.lines.last == #"c{a="1",b="2"} 2"#)
  }

  @Test func `a metric beyond its maximum of series counts in the series overflow`() {
    let registry = PrometheusRegistry(seriesPerMetric: 3)
    for user in 0..<1_000 {
      Counter(label: "c", dimensions: [("user", "\(user)"), ("kind", "k")], factory: registry).increment()
    }
    Counter(label: "c", dimensions: [("user", "1"), ("kind", "k")], factory: registry).increment()
    Counter(label: "other", dimensions: [("user", "1")], factory: registry).increment()
    #expect(
      registry.lines == [
        "# TYPE c counter", #"c{kind="k",user="0"} 1"#, #"c{kind="k",user="1"} 2"#,
        #"c{kind="k",user="2"} 1"#,
        #"c{kind="overflow",user="overflow"} 997"#, "# TYPE other counter", #"other{user="1"} 1"#,
      ])
  }

  @Test func `a metric name has one kind, and handles of another kind do nothing`() {
    let registry = PrometheusRegistry([MetricDescription(.counter, "c", help: "C.")])
    Meter(label: "c", factory: registry).set(5)
    Counter(label: "c", factory: registry).increment()
    #expect(registry.lines == ["# HELP c C.", "# TYPE c counter", "c 1"])
  }

  @Test func `a destroyed series is no longer rendered`() {
    let registry = PrometheusRegistry()
    let meter = Meter(label: "m", dimensions: [("a", "1")], factory: registry)
    Meter(label: "m", dimensions: [("a", "2")], factory: registry).set(2)
    meter.destroy()
    #expect(registry.lines == ["# TYPE m gauge", #"m{a="2"} 2"#])
  }

  @Test func `a counter ignores negative and invalid increments`() {
    let registry = PrometheusRegistry()
    let counter = Counter(label: "c", factory: registry)
    counter.increment(by: 5)
    counter.increment(by: -3)
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
    let registry = PrometheusRegistry([
      MetricDescription(.histogram, "h", buckets: [0.1, 1], help: "H.")
    ])
    Recorder(label: "h", factory: registry).record(value)
    let counts = registry.lines.filter { $0.hasPrefix("h_bucket") }.map { $0.hasSuffix(" 1") }
    #expect(counts == (0..<3).map { $0 >= bucket })
  }

  @Test func `concurrent updates lose no count, and a rendered histogram is consistent`() async {
    let registry = PrometheusRegistry([
      MetricDescription(.histogram, "h", buckets: [0.5], help: "H.")
    ])
    let (tasks, each) = (8, 5_000)
    await withTaskGroup { group in
      for task in 0..<tasks {
        group.addTask {
          let counter = Counter(label: "c", factory: registry)
          let amounts = FloatingPointCounter(label: "f", factory: registry)
          let meter = Meter(label: "m", factory: registry)
          let recorder = Recorder(label: "h", factory: registry)
          for _ in 0..<each {
            counter.increment()
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
    #expect(registry.lines.contains("c \(expected)"))
    #expect(registry.lines.contains("f \(expected / 2)"))
    #expect(registry.lines.contains("m \(expected)"))
    #expect(registry.lines.contains("h_bucket{le=\"0.5\"} \(expected / 2)"))
    #expect(registry.lines.contains("h_bucket{le=\"+Inf\"} \(expected)"))
    #expect(registry.lines.contains("h_sum \(expected / 2)"))
  }
}
