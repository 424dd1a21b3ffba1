import Actions
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

@Suite(.timeLimit(.minutes(5))) struct ConcurrentExtensionTests {
  @Test func `two requests at once extend a subscription once`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let ada = try #require(Harness.ada)
      func isExtended() async -> Bool {
        let extensions = harness.service.support.renewalExtensions
        return (try? await extensions.extend(bought.originalTransactionID, days: 5, reasonCode: 1, by: ada))
          != nil
      }
      async let first = isExtended()
      async let second = isExtended()
      let ends = await [first, second]
      #expect(ends.count { $0 } == 1)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }

  @Test func `a request does not repeat an extension that ended after the request began`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let ada = try #require(Harness.ada)
      let kind = try await harness.refusalOfRequest(whileExtending: id, product: TestApps.monthly) {
        _ = try await harness.service.support.renewalExtensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      #expect(kind == .alreadyDone)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.count("renewal_extensions") == 1)
    }
  }

  @Test func `a request for all subscribers does not repeat an extension that ended after the request began`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let kind = try await harness.refusalOfRequest(whileExtending: nil, product: TestApps.monthly) {
        _ = try await harness.service.support.renewalExtensions.extendAll(
          ofProduct: TestApps.monthly, days: 5, reasonCode: 1, by: ada)
      }
      #expect(kind == .alreadyDone)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.count("renewal_extensions") == 1)
    }
  }
}

extension Harness {
  /// Starts a request, holds it when it writes for the first time, and meanwhile stores another request that succeeded.
  /// - Returns: how the held request was refused; `nil` if it was not.
  fileprivate func refusalOfRequest(
    whileExtending purchase: String?, product: String, _ request: @escaping @Sendable () async throws -> Void
  ) async throws -> SupportRefusal.Kind? {
    let held = try await pool.withTransaction { connection in
      // Others can read the table and not write it.
      _ = try await connection.query("LOCK TABLE renewal_extensions IN EXCLUSIVE MODE")
      let held = Task { try await refusal { try await request() } }
      while try await connection.query(
        """
        SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND NOT l.granted
        """
      ).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
      _ = try await connection.query(
        """
        INSERT INTO renewal_extensions (request_identifier, bundle_id, environment, original_transaction_id,
          product_id, days, reason_code, by, reason, requested_at, accepted_at, completed_at)
        VALUES (\(UUID()), \(TestApps.climbing), 'Production', \(purchase)::text, \(product), 5, 1, 'ben', 'ticket 811',
          \(clock.now), \(clock.now), \(clock.now))
        """)
      return held
    }
    return try await held.value
  }
}
