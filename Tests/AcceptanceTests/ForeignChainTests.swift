import Curl
import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import TestProcess
import Testing

/// `receiptd serve` with a root of another implementation accepts its signatures and refuses every proof with one error.
@Suite struct ForeignChainTests {
  private struct Expectation: Decodable {
    var name: String
    var route: String
    var body: [String: String]
    var status: Int
    var code: String?
  }

  private struct Problem: Decodable {
    var code: String?
  }

  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL

  private static let configuration = """
    { "apps": [ { "bundleID": "com.example.foreign", "appAppleID": 1500000009,
      "environments": ["Production"], "customer": "device",
      "products": { "com.example.foreign.monthly": { "tier": "premium" } },
      "tiers": { "premium": { "rank": 1, "features": {} } } } ] }
    """

  @Test func `a server accepts proofs that OpenSSL signed and refuses each invalid one with its error code`()
    async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let expectations = try await Self.sign(into: folder)
    #expect(expectations.count > 100)
    let apps = folder.appending(path: "apps.json")
    try Data(Self.configuration.utf8).write(to: apps)

    try await withTestDatabase { database in
      let receiptd = try ReceiptdProcess(
        environment: [
          "DATABASE_URL": database.uri, "RECEIPTD_CONFIG": apps.path,
          "RECEIPTD_MIGRATIONS": Self.project.appending(path: "migrations").path,
          "APP_STORE_ROOTS": folder.appending(path: "root.der").path,
        ], log: folder.appending(path: "log"))
      let client = CurlClient()
      try await receiptd.awaitReady(client)
      for expectation in expectations {
        let response = try await client.send(
          CurlRequest(
            method: .post, url: "http://127.0.0.1:\(receiptd.port)\(expectation.route)",
            headers: [.contentType: "application/json"],
            body: Array(try JSONEncoder().encode(expectation.body))))
        let code = try JSONDecoder().decode(Problem.self, from: Data(response.body)).code
        #expect(response.status == expectation.status, "\(expectation.route): \(expectation.name)")
        #expect(code == expectation.code, "\(expectation.route): \(expectation.name)")
      }

      let pool = try database.pool()
      let outcomes = try await pool.query("SELECT outcome, count(*) FROM notifications GROUP BY 1 ORDER BY 1")
        .map { "\(try $0.decode("outcome", as: String.self)) \(try $0.decode("count", as: Int.self))" }
      #expect(
        outcomes == [
          "applied 1", "failed 3", "unknown_app 2", "unknown_environment 1", "unknown_product 1",
          "unknown_type 1",
        ])
      await pool.close()

      // At level `trace` the log has no signed payload and no token.
      #expect(!receiptd.logText.contains("eyJ"))
      #expect(await receiptd.stop() == 0)
      await client.shutDown()
    }
  }

  private static func sign(into folder: URL) async throws -> [Expectation] {
    let python = project.appending(path: ".build-python/bin/python")
    try #require(
      FileManager.default.isExecutableFile(atPath: python.path), "scripts/install makes .build-python")
    let script = project.appending(path: "Tests/AcceptanceTests/Python/foreign_chain.py")
    let output = try await Command(python.path, [script.path, folder.path]).output()
    return try JSONDecoder().decode([Expectation].self, from: output)
  }
}
