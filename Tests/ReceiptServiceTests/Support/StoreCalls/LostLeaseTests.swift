import Actions
import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// A command that reads the renewal date for longer than its lease, while another command takes the request.
@Suite struct LostLeaseTests {
  @Test(arguments: [false, true])
  func `a command that lost its lease neither ends nor frees the request of another one`(knowsExpiry: Bool)
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let ada = try #require(Harness.ada)
      let extensions = harness.service.support.renewalExtensions
      harness.store.add(.close.at(.extend))
      await #expect(throws: Problem.self) {
        _ = try await extensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      harness.clock.advance(seconds: 61)
      let open = try #require(try await harness.pool.query(RenewalExtensionRows.open(id)).first)
      var late = try await extensions.hold(open.decode("request_identifier"), of: id)
      if !knowsExpiry { late.expiresBefore = nil }
      harness.clock.advance(seconds: 61)
      harness.store.add(.close.at(.extend))
      await #expect(throws: Problem.self) {
        _ = try await extensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      harness.store.clearServerFaults()

      harness.store.add(.unauthorized.at(.statuses))
      let stored = try SubscriptionRows.decode(
        #require(try await harness.pool.query(SubscriptionRows.select([id])).first))
      let api = try extensions.api(of: TestApps.climbing)
      let held = late
      #expect(
        try await refusal { _ = try await extensions.carryOut(held, of: stored, api, by: ada) }
          == .alreadyDone)
      harness.store.clearServerFaults()
      // The other command still holds the request, so a third one sends nothing.
      #expect(
        try await refusal { _ = try await extensions.extend(id, days: 5, reasonCode: 1, by: ada) }
          == .alreadyDone)
      #expect(try await harness.count("renewal_extensions") == 1)
      #expect(harness.store.acceptedRequests.isEmpty)
    }
  }
}
