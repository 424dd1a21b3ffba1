import AppStoreSimulator
import HTTPTypes
import Postgres
import Subscriptions
import Synchronization
import Testing

@testable import Customers
@testable import Ledger
@testable import Proofs
@testable import ReceiptService

/// A device's secret is stored or replaced after a request was admitted, and before it has the device's lock: another
/// session holds the lock until then.
@Suite(.timeLimit(.minutes(10))) struct SecretRaceTests {
  private let phone = ScreenTime.secret(1)

  @Test
  func `a purchase is not bound to a device whose secret is stored while the purchase waits for the lock`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "a").status == 201)
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let proof = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      let answer = try await harness.secret(isStoredWhile: { try await harness.validate(proof) })
      #expect(answer.status == 200)
      #expect(answer.string("subscription.status") == "active")
      #expect(answer.string("entitlements.entitlementToken") == nil)
      let stored = try await harness.pool.query(
        "SELECT device_id FROM subscriptions WHERE original_transaction_id = \(bought.originalTransactionID)")
      #expect(try stored.map { try $0.decode("device_id", as: String?.self) } == [nil])
      #expect(try await harness.count("purchase_devices") == 0)
      // The secret that was stored meanwhile is the device's, and binds the purchase.
      #expect(try await harness.validate(proof, secret: phone).string("entitlements.entitlementToken") != nil)
    }
  }

  @Test
  func `an assumed admission that does not hold fails its own entry, and the commit records the others`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "a", secret: phone).status == 201)
      let entries = try ["phone", "tablet", "watch"].map { try harness.entry(of: $0) }
      let results = Mutex<[String: Bool]>([:])
      try await SharedCommit.with(harness) { commit in
        try await commit.record(Array(entries.prefix(2)), after: entries[2]) { _, entry in
          let device = try #require(entry.claim?.admission?.device)
          do {
            let receipt = try await commit.ledger.record(entry)
            results.withLock { $0[device] = receipt.isNews }
          } catch is DeviceSecretChanged {
            results.withLock { $0[device] = false }
          }
        }
      }
      #expect(results.withLock { $0 } == ["phone": false, "tablet": true, "watch": true])
      let stored = try await harness.pool.query("SELECT device_id FROM subscriptions ORDER BY device_id")
      #expect(try stored.map { try $0.decode("device_id", as: String?.self) } == ["tablet", "watch"])
    }
  }

  @Test
  func `a device is not paired by a request without the secret that is stored while it waits for the lock`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "a").status == 201)
      let answer = try await harness.secret(isStoredWhile: { try await harness.pair("child", to: "phone") })
      #expect(answer.status == 401)
      #expect(answer.headers[.wwwAuthenticate] == "DeviceSecret")
      #expect(try await harness.count("devices") == 0)
      #expect(try await harness.pair("child", to: "phone", secret: phone).status == 201)
    }
  }

  @Test
  func `a device is not unpaired by a request without the secret that is stored while it waits for the lock`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "a").status == 201)
      #expect(try await harness.pair("child", to: "phone").status == 201)
      let answer = try await harness.secret(
        isStoredWhile: { try await harness.unpair("child", from: "phone") })
      #expect(answer.status == 401)
      #expect(try await harness.count("devices") == 1)
    }
  }

  @Test func `no trial starts for a request without the secret that is stored while it waits for the lock`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.individual)
      let answer = try await harness.secret(
        isStoredWhile: { try await harness.launch("phone", account: "b") })
      #expect(answer.status == 401)
      #expect(try await harness.count("trials") == 0)
    }
  }

  @Test func `a consent needs the secret that replaces the request's while it waits for the lock`()
    async throws
  {
    try await withScreenTime { harness in
      let former = ScreenTime.secret(2)
      #expect(try await harness.launch("phone", account: "a", secret: former).status == 201)
      let json = #"{"consent": true, "deviceID": "phone", "bundleID": "\#(ScreenTime.bundleID)"}"#
      let answer = try await harness.secret(
        isStoredWhile: { try await harness.send(.post, "/api/v1/consent", json: json, secret: former) })
      #expect(answer.status == 401)
      #expect(try await harness.count("consents") == 0)
      #expect(try await harness.send(.post, "/api/v1/consent", json: json, secret: phone).status == 200)
    }
  }
}

extension Harness {
  /// A validation of a new purchase by a device without a secret, as ``Validation`` makes it.
  fileprivate func entry(of device: String) throws -> LedgerEntry {
    let bought = try buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
    let purchase = try service.proofs.verifier.purchase(
      signedTransaction: bought.signedTransaction, signedRenewalInfo: nil, bundleID: nil)
    let claim = Claim(by: .device(device), admission: .assumed(device, in: purchase.app, secret: nil))
    return LedgerEntry(purchase, because: .proof(claim), instant: clock.now)
  }

  /// Sends a request, stores ``ScreenTime/secret(_:)`` 1 for the device `phone` once the request waits for the device's
  /// lock, and releases the lock.
  fileprivate func secret(
    isStoredWhile request: @escaping @Sendable () async throws -> Answer
  ) async throws -> Answer {
    let waiting = try await pool.withTransaction { connection in
      _ = try await connection.query(CustomerStatusWriter.lock([.device("phone")]))
      let waiting = Task { try await request() }
      while try await requestsWaitingForLocks(connection) == 0 { await Task.yield() }
      _ = try await connection.query(
        """
        INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at)
        VALUES (\(ScreenTime.bundleID), 'phone', sha256(decode(repeat('01', 32), 'hex')), \(clock.now))
        ON CONFLICT (bundle_id, device_id) DO UPDATE SET secret_hash = excluded.secret_hash
        """)
      return waiting
    }
    return try await waiting.value
  }

  /// The number of sessions of this database that wait for an advisory lock.
  func requestsWaitingForLocks(_ connection: PostgresConnection) async throws -> Int {
    try await connection.query(
      """
      SELECT count(*) AS waiting FROM pg_locks
      WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      """)[0].decode("waiting")
  }
}
