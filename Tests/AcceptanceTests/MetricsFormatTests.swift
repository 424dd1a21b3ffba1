import Curl
import Foundation
import TestDatabase
import TestProcess
import Testing

/// Prometheus's own reader of the text format, which is not ours.
@Suite struct MetricsFormatTests {
  private static let project = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../..").standardizedFileURL
  /// `scripts/install` puts it there.
  static let promtool = project.appending(path: ".build-promtool/usr/bin/promtool")

  @Test func `promtool finds no fault with the metrics of a running server`() async throws {
    #expect(FileManager.default.isExecutableFile(atPath: Self.promtool.path), "scripts/install puts it there")
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await withTestDatabase { database in
      let client = CurlClient()
      let receiptd = try ReceiptdProcess(
        environment: [
          "DATABASE_URL": database.uri,
          "RECEIPTD_CONFIG": Self.project.appending(path: "config/apps.json").path,
          "RECEIPTD_MIGRATIONS": Self.project.appending(path: "migrations").path,
          "APP_STORE_ROOTS": Self.project.appending(path: "config/AppleRootCA-G3.cer").path,
          "SWIFTCLIMB_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
          "THAQALAYN_JWT_SECRET": "a-secret-that-only-the-tests-use-0123456789",
        ], log: folder.appending(path: "log"))
      try await receiptd.awaitReady(client)
      _ = try await client.send(CurlRequest(url: "http://127.0.0.1:\(receiptd.port)/nowhere"))
      let answer = try await client.send(
        CurlRequest(url: "http://127.0.0.1:\(receiptd.adminPort)/metrics"))
      #expect(answer.status == 200)
      #expect(await receiptd.stop() == 0)
      await client.shutDown()

      let reading = try await Command(
        Self.promtool.path, ["check", "metrics"], input: Data(answer.body)
      ).run()
      #expect(reading.status == 0)
      #expect(reading.text + reading.complaint == "")
    }
  }
}
