import Actions
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Deliveries
@testable import ReceiptService
@testable import Support

@Suite struct RefundPreferenceErasureTests {
  @Test func `a preference beside an erasure is refused and names no customer`() async throws {
    try await withHarness { harness in
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), 'phone', \(now), \(now + 86_400))
        """)
      let ada = try #require(Harness.ada)
      let desk = harness.desk
      let asked = try await harness.pool.withTransaction { connection in
        // As an erasure does.
        _ = try await connection.query(CustomerStatusWriter.lock([.device("phone")]))
        let asked = Task {
          try await refusal { _ = try await desk.preferRefund(.grant, for: "phone", by: ada) }
        }
        try await Task.sleep(for: .milliseconds(400))
        _ = try await connection.query("DELETE FROM trials")
        return asked
      }
      #expect(try await asked.value == .notFound)
      #expect(try await harness.count("support_actions") == 0)
    }
  }
}
