import Actions
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Console
@testable import ReceiptService

/// Markup in texts that customers, clients, the App Store and support choose.
@Suite struct ConsoleMarkupTests {
  private static let script = "<script>alert(1)</script>\"'&{{title}}{{{title}}}"
  private static let escaped = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;{{title}}{{{title}}}"

  /// Writes the script into every text that a screen shows.
  private static func poison(_ harness: Harness) async throws {
    for (table, column) in [
      ("subscriptions", "product_id"), ("transactions", "product_id"), ("notifications", "type"),
      ("devices", "name"), ("support_actions", "reason"), ("support_actions", "by"),
      ("grants", "reason"), ("grants", "granted_by"), ("outbox", "last_error"), ("outbox", "endpoint"),
      ("refused_attempts", "route"), ("refused_attempts", "code"),
    ] {
      _ = try await harness.pool.query("UPDATE \(unescaped: table) SET \(unescaped: column) = \(script)")
    }
    _ = try await harness.pool.query(
      "UPDATE support_actions SET details = jsonb_build_object('note', \(script)::text)")
  }

  @Test func `markup in names, products, notes, events and reasons is text on every screen`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let world = try await ConsoleWorld(harness)
      let browser = try await ConsoleBrowser(harness, .lead)
      try await Self.poison(harness)
      let record = try await harness.pool.query("SELECT max(id) AS id FROM support_actions")[0]
        .decode("id", as: Int.self)
      for path in [
        "search", "customer/\(world.user)", "customer/\(world.device)",
        "customer/\(try #require(world.purchases["billing"]))", "lists?list=renewing&days=40",
        "lists?list=billing&days=60",
        "lists?list=grants", "lists?list=refused", "search?q=\("<script>".inQuery)", "queues", "record",
        "record/\(record)",
      ] {
        let page = try await browser.page("/console/\(path)")
        #expect(!page.contains("<script>alert"), "\(path)")
        #expect(page.contains(Self.escaped), "\(path)")
      }
    }
  }

  @Test func `markup in an address or a form comes back as text`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let browser = try await ConsoleBrowser(harness, .lead)
      let script = Self.script.inQuery
      for (path, status) in [
        ("search?q=\(script)", 200), ("customer/\(script)", 404), ("record?by=\(script)", 200),
        ("record?customer=\(script)&action=\(script)&app=\(script)", 200),
        ("queues?destination=\(script)", 200),
        ("lists?app=\(script)", 404), ("lists?list=\(script)", 400), ("lists?days=\(script)", 400),
        ("act/grant?customer=\(script)&bundleID=\(script)&back=\(script)", 200),
        ("act/transfer?originalTransactionID=\(script)", 200), ("record/\(script)", 400),
        ("\(script)", 404),
      ] {
        let answer = try await browser.get("/console/\(path)")
        #expect(answer.status == status, "\(path): \(answer.status)")
        #expect(!answer.text.contains("<script>alert"), "\(path)")
        #expect(!answer.text.contains("\"\(Self.script)"), "\(path)")
      }
      let fields = [
        "customer": Self.script, "bundleID": TestApps.family, "tier": Self.script, "days": Self.script,
        "reason": Self.script, "back": Self.script,
      ]
      for step in ["", "do"] {
        let answer = try await browser.post("/console/act/grant", fields.merging(["step": step]) { $1 })
        #expect(!answer.text.contains("<script>alert"), "\(answer.text)")
        #expect(answer.text.contains("value=\"\(Self.escaped)\""), "\(answer.text)")
      }
    }
  }
}
