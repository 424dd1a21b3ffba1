import Actions
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Numbers
import Postgres
import Subscriptions
import Synchronization

extension Console {
  /// *What-if*: what a pasted configuration would change for the customers. Nothing is stored, and the text reaches no
  /// log.
  static func whatIf(_ parts: Parts) -> ConsoleScreen {
    let page = WhatIfPage(parts)
    let path = "/console/what-if"
    return ConsoleScreen(
      entry: nil, path: path, operation: .whatIf,
      pages: [
        ConsolePage(path: path, operation: .whatIf) { _ in page.answer(WhatIfPage.Content()) },
        ConsolePage(
          method: .post, path: path, operation: .whatIf, maximumBodyLength: WhatIfPage.maximumLength,
          takesLines: true
        ) { try await page.compare($0) },
      ],
      templates: ["what-if": PackageResources.what_if_mustache])
  }
}

private final class WhatIfPage: Sendable {
  /// The most bytes of the form: configurations have some kilobytes, and an escape has three bytes.
  static let maximumLength = 512 << 10
  /// The most purchases, and the most trials, grants and devices, that a page compares.
  private static let mostRows = 20_000
  /// The longest comparison. Within the time that a request has.
  private static let longest = Duration.seconds(20)

  private let parts: Console.Parts
  /// Whether a comparison runs: it uses several connections.
  private let isBusy = Atomic(false)

  init(_ parts: Console.Parts) { self.parts = parts }

  struct Content: Sendable {
    var text = ""
    var problem: String?
    /// Why the page does not compare so many customers.
    var excess: String?
    var at: String?
    var reports: [Report] = []
  }

  struct Report: Sendable {
    let app: String
    let bundleID: String
    let noticing: Int
    let compared: Int
    let isMissing: Bool
    let groups: [Group]
    let hasGroups: Bool
    let children: String?

    init(_ report: WhatIfReport, from now: Date) {
      app = report.app
      bundleID = report.bundleID
      compared = report.customers
      isMissing = report.isMissing
      groups = report.groups.sorted { $0.key < $1.key }.map { kind, group in
        let isLoss = if case .losesAccess = kind { true } else { false }
        return Group(
          kind: kind.words, level: isLoss ? "bad" : "", atOnce: group.now, later: group.later,
          first: group.firstLater.map { Moment($0, from: now) }, revenue: group.revenue.words)
      }
      noticing = report.groups.values.reduce(0) { $0 + $1.now + $1.later }
      hasGroups = !groups.isEmpty
      children = report.childrenWords?.withCapital
    }
  }

  struct Group: Sendable {
    let kind: String
    let level: String
    let atOnce: Int
    let later: Int
    let first: Moment?
    let revenue: String
  }

  func answer(_ content: Content, _ status: HTTPResponse.Status = .ok) -> ConsoleAnswer {
    .page(ConsoleContent(status: status, title: "What-if", template: "what-if", content: content))
  }

  /// Compares, within bounds of rows and time.
  func compare(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    var content = Content(text: request.form["configuration"] ?? "")
    guard isBusy.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    else {
      content.problem = "Another comparison runs on this server. Try again when it has ended."
      return answer(content, .conflict)
    }
    defer { isBusy.store(false, ordering: .releasing) }
    let other: AppCatalog
    do throws(ConfigurationProblem) {
      other = try AppCatalog(json: Data(content.text.utf8), named: "apps.json")
    } catch {
      content.problem = "\(error)"
      return answer(content, .badRequest)
    }
    let command =
      "Run 'receiptd-admin what-if NEW-APPS.json' on the server: it shows its progress, and may run beside it."
    if let table = try await largeTable() {
      content.excess =
        "A page compares at most \(Self.mostRows) customers, and the table '\(table)' has more rows. \(command)"
      return answer(content)
    }
    do {
      guard let reports = try await bounded(other, at: request.instant) else {
        content.excess = "The comparison takes longer than a page may. \(command)"
        return answer(content)
      }
      content.at = Moment(request.instant, from: request.instant).text
      content.reports = reports.map { Report($0, from: request.instant) }
      return answer(content)
    } catch let problem as WhatIfProblem {
      content.problem = "\(problem)"
      return answer(content, .badRequest)
    }
  }

  /// A table of customers with too many rows for a page.
  private func largeTable() async throws -> String? {
    let tables: [StaticString] = ["subscriptions", "purchase_devices", "trials", "grants"]
    let apps = parts.catalog.apps.map(\.bundleID)
    for table in tables {
      let row = try await parts.pool.query(
        """
        SELECT count(*) AS rows FROM (
          SELECT FROM \(unescaped: table) WHERE bundle_id = ANY(\(apps)) LIMIT \(Self.mostRows + 1)) AS found
        """)[0]
      if try row.decode("rows", as: Int.self) > Self.mostRows { return "\(table)" }
    }
    return nil
  }

  /// - Returns: `nil` if it took too long.
  private func bounded(_ other: AppCatalog, at instant: Date) async throws -> [WhatIfReport]? {
    let whatIf = WhatIf(current: parts.catalog, other: other, pool: parts.pool)
    return try await withThrowingTaskGroup(of: [WhatIfReport]?.self) { group in
      group.addTask {
        try await whatIf.run(bundleID: nil, at: instant, progress: { _, _ in }, found: { _ in })
      }
      group.addTask {
        try await Task.sleep(for: Self.longest)
        return nil
      }
      defer { group.cancelAll() }
      return try await group.next() ?? nil
    }
  }
}
