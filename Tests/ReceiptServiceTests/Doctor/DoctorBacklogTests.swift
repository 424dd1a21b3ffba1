import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService

/// The doctor's warnings about work that waits.
@Suite struct DoctorBacklogTests {
  private func warnings(_ harness: Harness) async -> [String] {
    var results: [CheckResult] = []
    _ = await Doctor(environment: harness.environment).check { results.append($0) }
    return results.filter { $0.isWarning && ["notifications", "premium status"].contains($0.subject) }.map(
      \.line)
  }

  @Test func `the doctor warns of a notification that could not be processed`() async throws {
    try await withHarness { harness in
      #expect(await warnings(harness) == [])
      let product = "com.example.climbing.secret"
      var app = try #require(harness.store.app(TestApps.climbing))
      app.products[product] = .subscription(product)
      harness.store.put(app)
      let bought = try harness.buy(product, token: UUID())
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(
        await warnings(harness) == [
          "warn  notifications: some are kept and not processed (unknown_product: 1); "
            + "SELECT * FROM support_waiting_notifications"
        ])
    }
  }

  @Test func `the doctor warns of a premium status that the profile table refused`() async throws {
    try await withHarness { harness in
      _ = try await harness.pool.query(
        "ALTER TABLE profiles ADD CONSTRAINT refuse CHECK (premium_product_id IS NULL)")
      let user = UUID()
      _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
      #expect(try await harness.notify(harness.buy(token: user).notification.signedPayload).status == 200)
      harness.clock.advance(seconds: 2)
      try await harness.service.customers.profileRetry.run()
      let warnings = await warnings(harness)
      #expect(warnings.count == 1)
      #expect(warnings.first?.hasPrefix("warn  premium status: 1 not written, the first since ") == true)
      #expect(
        warnings.first?.contains(": profiles: refused (23514, constraint refuse)") == true,
        "\(warnings)")
      _ = try await harness.pool.query("ALTER TABLE profiles DROP CONSTRAINT refuse")
      harness.clock.advance(seconds: 60)
      try await harness.service.customers.profileRetry.run()
      #expect(await self.warnings(harness) == [])
    }
  }
}
