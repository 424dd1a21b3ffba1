import Foundation
import Postgres
import TestDatabase
import TestProcess
import Testing

@testable import ReceiptService

/// The views find a customer by index: tests their plans with the statistics of 20,000 subscriptions.
@Suite struct SupportViewPlanTests {
  private struct Plan: Decodable {
    var type: String
    var relation: String?
    var children: [Plan]?

    enum CodingKeys: String, CodingKey {
      case type = "Node Type"
      case relation = "Relation Name"
      case children = "Plans"
    }

    var sequentialScans: [String] {
      (type == "Seq Scan" ? [relation ?? ""] : []) + (children ?? []).flatMap(\.sequentialScans)
    }
  }

  private struct Explanation: Decodable {
    var plan: Plan

    enum CodingKeys: String, CodingKey { case plan = "Plan" }
  }

  private static let big: Set = [
    "subscriptions", "transactions", "notifications", "support_actions", "devices", "grants", "trials",
    "purchase_devices",
  ]

  private func sequentialScans(_ question: String, _ pool: PostgresPool) async throws -> Set<String> {
    let rows = try await pool.query(Query(unescaped: "EXPLAIN (FORMAT JSON) " + question))
    let json = try rows[0].decode("QUERY PLAN", as: JSONText.self).text
    let explanations = try JSONDecoder().decode([Explanation].self, from: Data(json.utf8))
    return Set(explanations.flatMap(\.plan.sequentialScans)).intersection(Self.big)
  }

  @Test func `each support view finds a customer without a sequential scan`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await loadSubscriptions(20_000, into: database)
      try await database.withPool { pool in
        let users = try await pool.query(
          "SELECT user_id::text, original_transaction_id FROM subscriptions WHERE user_id IS NOT NULL LIMIT 1"
        )
        let device = try await pool.query(
          "SELECT device_id, transaction_id FROM subscriptions WHERE device_id IS NOT NULL LIMIT 1")
        let user = try users[0].decode("user_id", as: String.self)
        let purchase = try users[0].decode("original_transaction_id", as: String.self)
        let phone = try device[0].decode("device_id", as: String.self)
        let transaction = try device[0].decode("transaction_id", as: String.self)
        let filters: [(view: String, condition: String)] = [
          ("support_subscriptions", "user_id = '\(user)'"),
          ("support_subscriptions", "device_id = '\(phone)'"),
          ("support_subscriptions", "original_transaction_id = '\(purchase)'"),
          ("support_subscriptions", "transaction_id = '\(transaction)'"),
          ("support_subscriptions", "expiry_date BETWEEN now() AND now() + interval '10 minutes'"),
          ("support_subscriptions", "expiry_date > now() ORDER BY expiry_date LIMIT 50"),
          ("support_transactions", "transaction_id = '\(transaction)'"),
          ("support_transactions", "original_transaction_id = '\(purchase)'"),
          ("support_customers", "user_id = '\(user)'"), ("support_customers", "device_id = '\(phone)'"),
          ("support_customers", "customer = '\(user)'"),
          ("support_timeline", "user_id = '\(user)' ORDER BY at"),
          ("support_timeline", "device_id = '\(phone)' ORDER BY at"),
          ("support_timeline", "original_transaction_id = '\(purchase)' ORDER BY at"),
          ("support_timeline", "transaction_id = '\(transaction)' ORDER BY at"),
          ("support_work", "customer = '\(user)'"), ("support_work", "queue <> 'outbox'"),
        ]
        for (view, condition) in filters {
          let scans = try await sequentialScans("SELECT * FROM \(view) WHERE \(condition)", pool)
          #expect(scans == [], "\(view) WHERE \(condition)")
        }
        // Proves that the test detects a sequential scan.
        let control = try await sequentialScans(
          "SELECT * FROM support_subscriptions WHERE currency = 'EUR'", pool)
        #expect(control == ["subscriptions"])
        let story = try await pool.query(
          "SELECT event FROM support_timeline WHERE user_id = \(UUID(uuidString: user)) ORDER BY at")
        // One line for each of the three periods, without their notifications.
        #expect(story.count >= 3)
      }
    }
  }
}

/// Fills a database as `scripts/harness/load-million` does.
func loadSubscriptions(_ count: Int, into database: TestDatabase) async throws {
  let script = URL(filePath: Harness.migrations).deletingLastPathComponent()
    .appending(path: "scripts/harness/load-million")
  var command = Command(script.path, ["\(count)"])
  command.environment["DATABASE_URL"] = database.uri
  try await command.output()
}
