import Foundation
import Testing

/// The metric names of alerts, dashboard and docs exist. An alert on an unknown name never fires.
@Suite struct MetricNameTests {
  private static let folder = URL(filePath: Harness.migrations).deletingLastPathComponent()

  private static func file(_ path: String) throws -> String {
    try String(contentsOf: folder.appending(path: path), encoding: .utf8)
  }

  /// The metric names in a text.
  private static func names(in text: String) -> Set<String> {
    Set(text.matches(of: /\b(receiptd|process)_[a-z0-9_]+/).map { String($0.output.0) })
  }

  @Test func `every metric of the alerts and of the dashboard exists in a running server`() async throws {
    try await withHarness { harness in
      let known = try await harness.scrape().names
      for path in ["config/alerts.yml", "config/grafana-dashboard.json"] {
        let used = Self.names(in: try Self.file(path))
        #expect(used.count > 20)
        #expect(used.subtracting(known).isEmpty, "\(path)")
      }
    }
  }

  @Test func `the dashboard shows every metric, and docs/metrics.md explains it`() async throws {
    try await withHarness { harness in
      let shown = Self.names(in: try Self.file("config/grafana-dashboard.json"))
      let explained = Self.names(in: try Self.file("docs/metrics.md"))
      for name in try await harness.scrape().names where !name.hasSuffix("_sum") && !name.hasSuffix("_count")
      {
        let metric = name.hasSuffix("_bucket") ? String(name.dropLast("_bucket".count)) : name
        #expect(explained.contains(metric), "\(metric) is not in docs/metrics.md")
        guard name != "receiptd_database_figures_read_seconds" else { continue }
        #expect(shown.contains(name), "\(name) is not in the dashboard")
      }
    }
  }

  @Test func `every alert has a summary, a description, a severity and an existing runbook`() throws {
    let alerts = try Self.file("config/alerts.yml").split(separator: "      - alert: ").dropFirst()
    #expect(alerts.count > 20)
    let headings = Set(
      try Self.file("docs/runbooks.md").matches(of: /(?m)^#+ (.+)$/).map {
        $0.output.1.lowercased().replacing(" ", with: "-")
      })
    for alert in alerts {
      let name = try #require(alert.split(separator: "\n").first)
      #expect(alert.contains("summary: "), "\(name)")
      #expect(alert.contains("description: "), "\(name)")
      #expect(alert.contains("severity: critical") || alert.contains("severity: warning"), "\(name)")
      #expect(
        alert.contains(#"runbook_url: "{{ $externalLabels.runbooks }}#\#(name.lowercased())"\#n"#), "\(name)")
      #expect(headings.contains(name.lowercased()), "\(name) has no runbook")
    }
  }

  @Test func `the dashboard is valid for an import into Grafana`() throws {
    let dashboard = try JSONSerialization.jsonObject(
      with: Data(try Self.file("config/grafana-dashboard.json").utf8))
    let members = try #require(dashboard as? [String: Any])
    let inputs = try #require(members["__inputs"] as? [[String: Any]])
    #expect(inputs.map { $0["name"] as? String } == ["DS_PROMETHEUS"])
    let panels = try #require(members["panels"] as? [[String: Any]])
    let ids = panels.compactMap { $0["id"] as? Int }
    #expect(Set(ids).count == panels.count)
    for panel in panels where panel["type"] as? String != "row" {
      let source = panel["datasource"] as? [String: String]
      #expect(source?["uid"] == "${DS_PROMETHEUS}")
      #expect((panel["targets"] as? [[String: Any]])?.isEmpty == false)
    }
  }
}
