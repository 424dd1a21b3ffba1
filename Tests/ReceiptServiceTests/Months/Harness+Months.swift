import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

extension MonthlyTable {
  /// What it is divided by.
  var key: String {
    switch self {
    case .notifications: "signed_at"
    case .transactions: "purchase_date"
    }
  }
}

extension PostgresPool {
  /// Divides both tables as they are.
  func divide() async throws {
    let partitioning = Partitioning(pool: self, pause: .milliseconds(20))
    for table in MonthlyTable.allCases { #expect(try await partitioning.divide(table)) }
  }

  /// Divides both tables, which are empty, as if that had been done so many months ago.
  func divide(monthsAgo: Int) async throws {
    try await withConnection { connection in
      for table in MonthlyTable.allCases {
        let bound = "date_trunc('month', now(), 'UTC') - interval '\(monthsAgo) months'"
        let statement = """
          ALTER TABLE \(table.rawValue) ADD CONSTRAINT receiptd_months_bound CHECK (\(table.key) < %L::timestamptz)
          """
        _ = try await connection.execute(
          script: """
            DO $$ BEGIN
              SET LOCAL TimeZone = 'UTC';
              EXECUTE format($f$\(statement)$f$, \(bound));
            END $$
            """)
        _ = try await connection.query(MonthRows.divide(table), timeout: .seconds(60))
      }
    }
  }

  /// The names of a table's months, the first one first, then the part for rows of no month.
  func months(of table: MonthlyTable) async throws -> [String] {
    try await query("SELECT month::text FROM receiptd_months(\(table.rawValue)::text::regclass)")
      .map { try $0.decode(0, as: String.self) }
  }

  /// What each support view says, as support reads it.
  func answersToSupport() async throws -> [String: [String]] {
    try await withTransaction { connection in
      _ = try await connection.query("SET LOCAL ROLE receiptd_support")
      var answers: [String: [String]] = [:]
      for view in [
        "support_timeline", "support_customers", "support_subscriptions", "support_waiting_notifications",
        "kpi_daily",
      ] {
        answers[view] = try await connection.query(
          Query(unescaped: "SELECT v::text FROM \(view) AS v ORDER BY 1")
        ).map { try $0.decode(0, as: String.self) }
      }
      return answers
    }
  }
}

extension Harness {
  /// The App Store posts until it is answered 200, as it does.
  func arrivesAtLast(_ signedPayload: String) async throws {
    let deadline = ContinuousClock.now + .seconds(120)
    while try await notify(signedPayload).status != 200 {
      try #require(.now < deadline, "a notification was refused for two minutes")
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  /// A subscription of a user that is renewed so often, from the clock's time on, and then cancelled; every
  /// notification arrives.
  /// - Returns: its original transaction id, and the ids of its periods.
  func subscription(
    renewals: Int, ends: Bool = true, user: UUID = UUID()
  ) async throws -> (id: String, periods: [String]) {
    let bought = try buy(token: user)
    try await arrives(bought)
    var last = bought
    var periods = [bought.transactionID]
    for _ in 0..<renewals {
      clock.set(try #require(last.transaction.expiresDate))
      last = try await happens(.renew, to: bought.originalTransactionID)
      periods.append(last.transactionID)
    }
    if ends {
      try await happens(.setAutoRenew(false), to: bought.originalTransactionID)
      clock.set(try #require(last.transaction.expiresDate))
      try await happens(.expire(nil), to: bought.originalTransactionID)
    }
    return (bought.originalTransactionID, periods)
  }
}
