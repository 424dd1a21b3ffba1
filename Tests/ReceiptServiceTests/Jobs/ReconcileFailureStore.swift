import Configuration
import Curl
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Synchronization
import Testing

@testable import AppStore
@testable import AppStoreSimulator
@testable import ReceiptService

final class Counter: Sendable {
  private let value = Mutex(0)
  var count: Int { value.withLock { $0 } }

  @discardableResult
  func next() -> Int {
    value.withLock {
      $0 += 1
      return $0
    }
  }
}

/// An App Store whose response depends on the number of the request, the first being 1.
struct CountedStore: HTTPTransport {
  enum Answer {
    case body(String)
    case unauthorized
    /// The App Store does not know the transaction.
    case unknown
  }

  let count = Counter()
  let answer: @Sendable (Int) -> Answer

  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    switch answer(count.next()) {
    case .body(let json):
      (HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]), Array(json.utf8))
    case .unauthorized: (HTTPResponse(status: .unauthorized), [])
    case .unknown:
      (
        HTTPResponse(status: .notFound, headerFields: [.contentType: "application/json"]),
        Array(#"{"errorCode": 4040010, "errorMessage": "Transaction id not found."}"#.utf8)
      )
    }
  }
}

extension Harness {
  /// A reconciliation with a store of the test.
  func reconciliation(
    _ answer: @escaping @Sendable (Int) -> CountedStore.Answer
  ) throws -> (Reconciliation, App) {
    let key = store.identity.connectKey
    let api = AppStoreServerAPI(
      transport: CountedStore(answer: answer),
      credentials: try AppStoreCredentials(
        privateKey: key.pem, keyID: key.keyID, issuerID: key.issuerID),
      bundleID: TestApps.climbing)
    let own = service.reconciliation
    let reconciliation = Reconciliation(
      apis: [TestApps.climbing: api], catalog: own.catalog, pool: own.pool, missed: own.missed,
      overdue: own.overdue, clock: own.clock, logger: own.logger)
    return (reconciliation, try #require(own.catalog[TestApps.climbing]))
  }

  /// The end of the history that was read of the app in production.
  func position() async throws -> Date? {
    try await pool.query(
      """
      SELECT history_read_until FROM reconcile_positions
      WHERE bundle_id = \(TestApps.climbing) AND environment = 'Production'
      """
    ).first?.decode("history_read_until", as: Date?.self)
  }

  /// Customers whose subscriptions renewed two hours ago without a notification or an entry in the history.
  func renewsSilently(customers: Int, times: Int = 1) async throws -> [String] {
    var ids: [String] = []
    var expires = clock.now
    for _ in 0..<customers {
      let (_, bought) = try await customer()
      ids.append(bought.originalTransactionID)
      expires = try #require(bought.transaction.expiresDate)
    }
    for _ in 0..<times {
      clock.set(expires)
      for id in ids {
        let renewed = try store.withStore(of: .production) { store, now throws(StoreRefusal) in
          try store.perform(.renew, on: id, at: now)
        }
        expires = try #require(renewed.transaction.expiresDate)
      }
    }
    // The first end has passed without news; the last one is in the future.
    clock.advance(seconds: 2 * 3_600)
    return ids
  }
}
