import Actions
import Configuration
import Crypto
import Foundation
import HTTPTypes
import Postgres
import Testing
import Work

@testable import Customers
@testable import Ledger
@testable import ReceiptService

/// The signing keys of entitlement tokens: creation, rotation and access rights.
@Suite struct EntitlementKeyTests {
  @Test
  func `one of twelve servers that start concurrently on an empty database creates the entitlement key`()
    async throws
  {
    try await withHarness { harness in
      _ = try await harness.pool.query("DELETE FROM entitlement_keys")
      let kids = try await withThrowingTaskGroup(of: String?.self) { group in
        for _ in 0..<12 {
          let other = try await harness.service(configuration: TestApps.json)
          group.addTask {
            await other.loadEntitlementKeys()
            await other.close()
            return other.signer.kid(at: harness.clock.now)
          }
        }
        return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
      }
      #expect(kids.count == 1)
      #expect(!kids.contains(nil))
      #expect(try await harness.count("entitlement_keys") == 1)
    }
  }

  @Test func `a new entitlement key is published before it signs, the old one until its tokens have expired`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      let first = try await harness.keySet()
      #expect(first.status == 200)
      #expect(first.headers[.contentType] == "application/json")
      #expect(first.headers[.cacheControl] == "public, max-age=600")
      let old = try #require(first.kids.first)

      try await harness.withServer { operators, _ in
        let rotation = try await operators.rotateEntitlementKey(by: ada)
        #expect(rotation.signsFrom == harness.clock.now + 3_600)
        let second = await #expect(throws: SupportRefusal.self) {
          try await operators.rotateEntitlementKey(by: ada)
        }
        #expect(second?.kind == .alreadyDone)
        // A running server reads it at its next refresh.
        #expect(try await harness.keySet().kids == [old])
        await harness.service.loadEntitlementKeys()
        #expect(try await harness.keySet().kids == [rotation.kid, old])

        harness.clock.advance(seconds: 3_599)
        let last = try await harness.premium(user)
        #expect(try last.tokenSegment(0)["kid"] as? String == old)
        // A client that fetches the key set now can verify future tokens.
        var held = try await harness.installation(of: user)
        try held.receive(last)
        harness.clock.advance(seconds: 1)
        let next = try await harness.premium(user)
        #expect(try next.tokenSegment(0)["kid"] as? String == rotation.kid)
        try held.receive(next)

        // A client installed shortly before the last old token expires accepts it.
        harness.clock.advance(days: 7)
        harness.clock.advance(seconds: -2)
        held = try await harness.installation(of: user)
        try held.receive(last)
        #expect(held.entitlement(at: harness.clock.now) != nil)
        harness.clock.advance(days: 1.1)
        #expect(try await harness.keySet().kids == [rotation.kid])

        let row = try await harness.pool.query(
          "SELECT action, by, reason, details->>'kid' FROM support_actions")
        #expect(row.count == 1)
        #expect(
          try (0..<4).map { try row[0].decode($0, as: String.self) }
            == ["rotate-entitlement-key", "ada", "ticket 812", rotation.kid])
      }
    }
  }

  @Test func `a revoked entitlement key no longer signs and is not published, even during a rotation`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (user, token) = try await harness.premiumUser()
      _ = try await harness.service.rotateEntitlementKey(by: ada)
      let rotation = try await harness.service.rotateEntitlementKey(isLeaked: true, by: ada)
      #expect(rotation.signsFrom == harness.clock.now)
      #expect(rotation.withdrawn == 2)
      await harness.service.loadEntitlementKeys()
      #expect(try await harness.keySet().kids == [rotation.kid])
      var held = try await harness.installation(of: user)
      #expect(held.receive(token) == nil)
      try held.receive(try await harness.premium(user))
    }
  }

  @Test func `a server without an entitlement key sends no token and answers 503 for the key set`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.premiumUser()
      let path = "/api/v1/profiles/\(user.uuidString.lowercased())/premium"
      let token = try await harness.token(for: user)
      _ = try await harness.pool.query("ALTER TABLE entitlement_keys RENAME TO entitlement_keys_away")
      try await harness.withServer { other, address in
        await other.loadEntitlementKeys()
        let answer = try await harness.send(.get, path, token: token, to: address)
        #expect(answer.status == 200)
        #expect(answer.bool("isPremium") == true)
        #expect(answer.isNull("entitlements.entitlementToken"))
        let keySet = try await harness.keySet(at: address)
        #expect(keySet.status == 503)
        #expect(keySet.headers[.retryAfter] != nil)
        // A server that has read the keys keeps them.
        await harness.service.loadEntitlementKeys()
        #expect(try await harness.premium(user).token != nil)

        _ = try await harness.pool.query("ALTER TABLE entitlement_keys_away RENAME TO entitlement_keys")
        await other.loadEntitlementKeys()
        let again = try await harness.send(.get, path, token: token, to: address)
        #expect(again.token != nil)
        #expect(try await harness.keySet(at: address).kids == harness.keySet().kids)
      }
    }
  }

  @Test func `of entitlement keys in files the first signs, all are published, and none is in the database`()
    async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-keys-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let names = ["new.pem", "old.pem"]
    for name in names {
      let made = try await OpenSSL.run(["genpkey", "-algorithm", "ed25519", "-out", name], in: folder)
      #expect(made.isSuccess)
    }
    let files = names.map { folder.appending(path: $0).path }
    let kids = try files.map {
      try EntitlementKey(.init(pem: String(contentsOfFile: $0, encoding: .utf8))).kid
    }
    try await withHarness(environment: ["ENTITLEMENT_KEY": files.joined(separator: ":")]) { harness in
      #expect(try await harness.count("entitlement_keys") == 0)
      #expect(try await harness.keySet().kids == kids)
      let (user, token) = try await harness.premiumUser()
      var held = try await harness.installation(of: user)
      #expect(held.receive(token) != nil)
      #expect(try await harness.premium(user).tokenSegment(0)["kid"] as? String == kids[0])
      let ada = try #require(Harness.ada)
      await #expect(throws: SupportRefusal.self) { try await harness.service.rotateEntitlementKey(by: ada) }
    }
  }

  @Test func `an invalid entitlement key file stops the start with one line that has nothing of its content`()
    throws
  {
    let file = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID()).pem")
    defer { try? FileManager.default.removeItem(at: file) }
    let secret = P256.Signing.PrivateKey().pemRepresentation
    try Data(secret.utf8).write(to: file)
    for (setting, reason) in [
      (file.path, "\(file.path) is not PEM of an Ed25519 private key"),
      ("/nowhere.pem", "cannot read /nowhere.pem: it does not exist"), (":", "names no file"),
      // The key itself in place of its file.
      (secret, "cannot read the file that it should name; give an absolute path"),
      (
        secret.split(separator: "\n").dropFirst().dropLast().joined(),
        "cannot read the file that it should name; give an absolute path"
      ),
    ] {
      let problem = #expect(throws: ConfigurationProblem.self) {
        try Settings(environment: ["DATABASE_URL": "postgresql:///x", "ENTITLEMENT_KEY": setting])
      }
      #expect(problem?.description == "ENTITLEMENT_KEY: \(reason)")
    }
  }

  @Test func `the doctor reports a damaged entitlement key, and a rotation replaces it`() async throws {
    try await withHarness { harness in
      let doctor = Doctor(environment: harness.environment, clock: .system)
      let settings = try Settings(environment: harness.environment)
      let kid = try #require(try await harness.keySet().kids.first)
      let well = try await doctor.entitlementKey(settings, harness.pool)
      #expect(well == .ok("entitlement key", "\(kid) of the database signs"))
      _ = try await harness.pool.query(
        "UPDATE entitlement_keys SET private_key = decode(repeat('00', 32), 'hex')")
      #expect(try await !doctor.entitlementKey(settings, harness.pool).isOK)
      let ada = try #require(Harness.ada)
      let rotation = try await harness.service.rotateEntitlementKey(isLeaked: true, by: ada)
      await harness.service.loadEntitlementKeys()
      #expect(try await harness.keySet().kids == [rotation.kid])
      _ = try await harness.pool.query("DELETE FROM entitlement_keys")
      let none = try await doctor.entitlementKey(settings, harness.pool)
      #expect(none.message == "none yet; the first start creates one")
      #expect(try await harness.count("entitlement_keys") == 0)
    }
  }

  @Test func `neither the support role nor an API role can read the private entitlement keys`() async throws {
    try await withHarness { harness in
      let readers = try await harness.pool.query(
        """
        SELECT grantee FROM information_schema.role_table_grants
        WHERE table_name = 'entitlement_keys' AND grantee NOT IN (current_user, 'receiptd_app')
        """
      ).map { try $0.decode("grantee", as: String.self) }
      #expect(readers == [])
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE receiptd_support")
        await #expect(throws: PostgresError.self) {
          try await connection.savepoint { _ = try await $0.query("SELECT kid FROM entitlement_keys") }
        }
      }
    }
  }
}
