import Curl
import Foundation
import Postgres
import TestDatabase
import TestProcess
import Testing

/// `receiptd serve` signs entitlement tokens that another implementation verifies.
@Suite struct EntitlementTokenTests {
  private struct Verdict: Decodable {
    struct Claims: Decodable {
      var aud: String
      var sub: String
      var status: String
      var isAccessGranted: Bool
      var features: [String: Int]
      var iat: Int
      var exp: Int
    }
    var claims: Claims
    var kid: String
    var thumbprints: [String]
    var refused: [String: Bool]
  }

  private struct Answer: Decodable {
    struct Entitlements: Decodable { var entitlementToken: String? }
    var entitlements: Entitlements
  }

  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL

  private static let configuration = """
    { "apps": [ { "bundleID": "com.example.token", "appAppleID": 1500000011,
      "environments": ["Production"], "customer": "device",
      "products": { "com.example.token.monthly": { "tier": "premium" } },
      "tiers": { "premium": { "rank": 1, "features": { "rooms": 5 } } },
      "free": { "features": { "rooms": 1 } } } ] }
    """

  @Test
  func `PyJWT verifies a token of a new server, and the server signs with the same key after a restart`()
    async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let apps = folder.appending(path: "apps.json")
    try Data(Self.configuration.utf8).write(to: apps)

    try await withTestDatabase { database in
      let environment = [
        "DATABASE_URL": database.uri, "RECEIPTD_CONFIG": apps.path,
        "RECEIPTD_MIGRATIONS": Self.project.appending(path: "migrations").path,
        "APP_STORE_ROOTS": Self.project.appending(path: "config/AppleRootCA-G3.cer").path,
      ]
      let client = CurlClient()
      var kids: Set<String> = []
      for number in 1...2 {
        let receiptd = try ReceiptdProcess(
          environment: environment, log: folder.appending(path: "log-\(number)"))
        try await receiptd.awaitReady(client)
        let base = "http://127.0.0.1:\(receiptd.port)"
        let answer = try await client.send(CurlRequest(url: "\(base)/api/v1/devices/phone/entitlements"))
        let token = try JSONDecoder().decode(Answer.self, from: Data(answer.body))
          .entitlements.entitlementToken
        let keySet = try await client.send(CurlRequest(url: "\(base)/.well-known/jwks.json"))
        let verdict = try await Self.verify(try #require(token), with: Data(keySet.body))
        #expect(verdict.claims.aud == "com.example.token")
        #expect(verdict.claims.sub == "phone")
        #expect(verdict.claims.status == "expired")
        #expect(!verdict.claims.isAccessGranted)
        #expect(verdict.claims.features == ["rooms": 1])
        #expect(verdict.claims.exp - verdict.claims.iat == 7 * 86_400)
        #expect(verdict.thumbprints == [verdict.kid])
        #expect(verdict.refused.count == 6)
        #expect(!verdict.refused.values.contains(false), "\(verdict.refused)")
        kids.insert(verdict.kid)
        #expect(await receiptd.stop() == 0)
        // At level `trace` the log has no token and no key.
        #expect(!receiptd.logText.contains("eyJ"))
        let seed = try await Self.privateKey(of: database)
        #expect(!receiptd.logText.lowercased().contains(seed))
      }
      #expect(kids.count == 1)
      await client.shutDown()
    }
  }

  /// The private key in the database, in hexadecimal.
  private static func privateKey(of database: TestDatabase) async throws -> String {
    let pool = try database.pool()
    let rows = try await pool.query("SELECT encode(private_key, 'hex') AS private_key FROM entitlement_keys")
    await pool.close()
    #expect(rows.count == 1)
    return try rows[0].decode("private_key", as: String.self)
  }

  private static func verify(_ token: String, with keySet: Data) async throws -> Verdict {
    let python = project.appending(path: ".build-python/bin/python")
    try #require(
      FileManager.default.isExecutableFile(atPath: python.path), "scripts/install makes .build-python")
    let given: [String: Any] = [
      "keySet": try JSONSerialization.jsonObject(with: keySet), "token": token,
      "app": "com.example.token", "customer": "phone",
    ]
    let script = project.appending(path: "Tests/AcceptanceTests/Python/entitlement_token.py")
    var command = Command(python.path, [script.path])
    command.input = try JSONSerialization.data(withJSONObject: given)
    return try JSONDecoder().decode(Verdict.self, from: try await command.output())
  }
}
