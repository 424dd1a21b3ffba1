import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// Extensions of one subscription whose answer was lost.
@Suite struct LostExtensionTests {
  @Test func `an extension without an answer is not repeated though a notification was lost before it`()
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      // Another extension, in App Store Connect, of which receiptd learns nothing.
      _ = try harness.store.perform(.extend(days: 1), on: id)
      let before = try #require(harness.store.truth(of: id)?.expiresDate)
      try await harness.losesExtension(of: id)
      #expect(try await harness.expiryBefore() == before)
      _ = try harness.store.perform(.extend(days: 5), on: id)
      harness.clock.advance(seconds: 61)
      let extended = try await harness.extend(id)
      #expect(extended.renewsAt == before + 5 * 86_400)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.actions().map(\.action) == ["extend-renewal"])
    }
  }

  @Test func `an extension without an answer is not repeated a day later`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let before = try #require(bought.transaction.expiresDate)
      try await harness.losesExtension(of: id)
      _ = try harness.store.perform(.extend(days: 5), on: id)
      harness.clock.advance(seconds: 25 * 3_600)
      let extended = try await harness.extend(id)
      #expect(extended.renewsAt == before + 5 * 86_400)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.count("renewal_extensions") == 1)
    }
  }

  @Test func `an extension that ends in an internal error of the App Store is sent once, and is uncertain`()
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let before = try #require(bought.transaction.expiresDate)
      harness.store.add(.error(.generalInternalRetryable).at(.extend).next(1))
      await #expect(throws: Problem.self) { _ = try await harness.extend(id) }
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await refusal { _ = try await harness.extend(id) } == .alreadyDone)
      _ = try harness.store.perform(.extend(days: 5), on: id)
      harness.clock.advance(seconds: 61)
      #expect(try await harness.extend(id).renewsAt == before + 5 * 86_400)
      #expect(harness.store.acceptedRequests.isEmpty)
    }
  }

  @Test func `an extension without an answer is not repeated within a minute`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.losesExtension(of: id)
      for days in [5, 6] {
        #expect(try await refusal { _ = try await harness.extend(id, days: days) } == .alreadyDone)
      }
      #expect(harness.store.acceptedRequests.isEmpty)
      harness.clock.advance(seconds: 61)
      _ = try await harness.extend(id)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }

  @Test func `a request with other options asks the App Store for the end of the former one`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let before = try #require(bought.transaction.expiresDate)
      // The first one never arrives.
      try await harness.losesExtension(of: id)
      harness.clock.advance(seconds: 61)
      try await harness.losesExtension(of: id, days: 6)
      #expect(
        try await harness.errors() == ["the App Store did not carry it out", "unknown"])
      // The second one arrives.
      _ = try harness.store.perform(.extend(days: 6), on: id)
      harness.clock.advance(days: 0.5)
      #expect(try await refusal { _ = try await harness.extend(id, days: 7) } == .alreadyDone)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.actions().map(\.action) == ["extend-renewal"])
      let forced = try await harness.extend(id, days: 7, isForced: true)
      #expect(forced.renewsAt == before + 13 * 86_400)
    }
  }

  @Test func `a renewal is not taken for an extension without an answer`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.losesExtension(of: id)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      _ = try harness.store.perform(.renew, on: id)
      #expect(try await refusal { _ = try await harness.extend(id) } == .invalid)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.actions().isEmpty)
      #expect(
        try await harness.errors() == ["the subscription renewed at its former date, so it was not extended"])
      // The next command is a new request.
      _ = try await harness.extend(id)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }

  @Test func `nothing is sent while the renewal date cannot be read`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      harness.store.add(.unauthorized.at(.statuses))
      await #expect(throws: Problem.self) { _ = try await harness.extend(id) }
      harness.store.clearServerFaults()
      #expect(harness.store.acceptedRequests.isEmpty)
      // It was not sent, so nothing has to be waited for.
      _ = try await harness.extend(id, days: 6)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }

  @Test func `a request of a process that ended before it read the renewal date is sent`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.losesExtension(of: id)
      _ = try await harness.pool.query("UPDATE renewal_extensions SET expires_before = NULL")
      harness.clock.advance(seconds: 61)
      _ = try await harness.extend(id)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }
}

extension Harness {
  fileprivate func extend(
    _ id: String, days: Int = 5, isForced: Bool = false
  ) async throws -> RenewalExtension {
    guard let ada = Self.ada else { throw TestFailure() }
    return try await service.support.renewalExtensions.extend(
      id, days: days, reasonCode: 1, isForced: isForced, by: ada)
  }

  private struct TestFailure: Error {}

  /// An extension whose request or answer is lost.
  fileprivate func losesExtension(of id: String, days: Int = 5) async throws {
    store.add(.close.at(.extend))
    await #expect(throws: Problem.self) { _ = try await extend(id, days: days) }
    store.clearServerFaults()
  }

  fileprivate func expiryBefore() async throws -> Date {
    try await value("SELECT expires_before AS value FROM renewal_extensions")
  }

  /// The error of each request that ended, oldest first.
  fileprivate func errors() async throws -> [String] {
    try await pool.query(
      """
      SELECT CASE WHEN completed_at IS NULL THEN 'unknown' ELSE last_error END AS error
      FROM renewal_extensions ORDER BY requested_at
      """
    ).map { try $0.decode("error") }
  }
}
