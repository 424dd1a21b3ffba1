import Curl
import Foundation
import TestDatabase
import TestProcess
import Testing

/// promtool, Prometheus's own parser of the text format, checks metrics and queries.
@Suite struct MetricsFormatTests {
  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL
  /// The executable that `scripts/install` installs.
  static let promtool = project.appending(path: ".build-promtool/usr/bin/promtool")

  @Test func `promtool accepts the metrics of a running server`() async throws {
    #expect(FileManager.default.isExecutableFile(atPath: Self.promtool.path), "scripts/install puts it there")
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await withTestDatabase { database in
      let client = CurlClient()
      let receiptd = try ReceiptdProcess(
        environment: [
          "DATABASE_URL": database.uri,
          "RECEIPTD_CONFIG": Self.project.appending(path: "config/apps.json").path,
          "RECEIPTD_MIGRATIONS": Self.project.appending(path: "migrations").path,
          "APP_STORE_ROOTS": Self.project.appending(path: "config/AppleRootCA-G3.cer").path,
          "SWIFTCLIMB_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
          "THAQALAYN_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
        ], log: folder.appending(path: "log"))
      try await receiptd.awaitReady(client)
      _ = try await client.send(CurlRequest(url: "http://127.0.0.1:\(receiptd.port)/nowhere"))
      let answer = try await client.send(
        CurlRequest(url: "http://127.0.0.1:\(receiptd.adminPort)/metrics"))
      #expect(answer.status == 200)
      #expect(await receiptd.stop() == 0)
      await client.shutDown()

      let reading = try await Command(
        Self.promtool.path, ["check", "metrics"], input: Data(answer.body)
      ).run()
      #expect(reading.status == 0)
      #expect(reading.text + reading.complaint == "")
    }
  }

  /// Replaces Grafana's variables by values, as Grafana does.
  private static func withoutVariables(_ expression: String) -> String {
    expression.replacing("$__rate_interval", with: "1m").replacing("$__interval", with: "1m")
      .replacing("$instance", with: ".*").replacing("$app", with: ".*")
  }

  private struct Dashboard: Decodable {
    struct Panel: Decodable {
      struct Target: Decodable { let expr: String }
      let title: String
      let targets: [Target]?
    }
    let panels: [Panel]
  }

  /// Wraps the expressions in recording rules: `promtool check rules` parses them without evaluating.
  private func problems(with expressions: [String]) async throws -> String {
    let file = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID()).yml")
    defer { try? FileManager.default.removeItem(at: file) }
    let encoder = JSONEncoder()
    // YAML has no escape `\/`.
    encoder.outputFormatting = .withoutEscapingSlashes
    let rules = try expressions.enumerated().map { number, expression in
      let text = try encoder.encode(expression)
      return "  - { record: 'e:\(number)', expr: \(String(decoding: text, as: UTF8.self)) }"
    }
    try Data((["groups:", "- name: all", "  rules:"] + rules).joined(separator: "\n").utf8).write(to: file)
    let reading = try await Command(Self.promtool.path, ["check", "rules", file.path]).run()
    return reading.status == 0 ? "" : reading.text + reading.complaint
  }

  @Test func `promtool parses every query of the dashboard`() async throws {
    let data = try Data(contentsOf: Self.project.appending(path: "config/grafana-dashboard.json"))
    let expressions = try JSONDecoder().decode(Dashboard.self, from: data).panels
      .flatMap { $0.targets ?? [] }.map { Self.withoutVariables($0.expr) }
    #expect(expressions.count > 50)
    #expect(expressions.filter { $0.contains("$") } == [])
    #expect(try await problems(with: expressions) == "")
    #expect(try await problems(with: ["sum by (app) (rate(x[5m])"]) != "")
  }

  @Test func `promtool parses every query of the runbooks`() async throws {
    let text = try String(
      contentsOf: Self.project.appending(path: "docs/runbooks.md"), encoding: .utf8)
    let expressions = text.matches(of: /(?s)```promql\n(.*?)```/).flatMap {
      $0.output.1.split(separator: "\n").map(String.init)
    }
    #expect(expressions.count > 10)
    #expect(try await problems(with: expressions) == "")
  }
}
