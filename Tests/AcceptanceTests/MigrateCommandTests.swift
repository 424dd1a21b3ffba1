import Foundation
import TestDatabase
import TestProcess
import Testing

/// `receiptd migrate` and a database that starts after it.
@Suite(.timeLimit(.minutes(10))) struct MigrateCommandTests {
  private static let migrations = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../migrations").standardizedFileURL.path

  private static func text(_ file: URL) -> String {
    (try? String(contentsOf: file, encoding: .utf8)) ?? ""
  }

  @Test func `migrate waits for a database that is starting, as serve does`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let apps = folder.appending(path: "apps.json")
    try Data(Stage.one.utf8).write(to: apps)
    let server = try await PrivatePostgres.start()
    var environment = ProcessInfo.processInfo.environment
    environment["DATABASE_URL"] = server.uri
    environment["RECEIPTD_CONFIG"] = apps.path
    environment["RECEIPTD_MIGRATIONS"] = Self.migrations
    do {
      // With DATABASE_POOLER=transaction no check of the pooler waits before the work does.
      for (arguments, pooler, line) in [
        (["--dry-run"], "transaction", "would be applied"), ([], "", ": applied"),
        (["--status"], "transaction", ": applied "),
      ] {
        environment["DATABASE_POOLER"] = pooler
        try await server.down()
        let log = folder.appending(path: "log")
        let output = folder.appending(path: "output")
        for file in [log, output] { try Data().write(to: file) }
        let process = try Command(
          ReceiptdProcess.executable.path, ["migrate"] + arguments, environment: environment
        ).start(output: output.path, complaint: log.path)
        defer { process.signal(SIGKILL) }
        while !Self.text(log).contains("waiting for the database") {
          try #require(process.isRunning, "\(Self.text(log))")
          try await Task.sleep(for: .milliseconds(10))
        }
        try await server.up()
        #expect(await process.exitStatus() == 0, "\(Self.text(log))")
        #expect(Self.text(output).contains(line))
      }
    } catch {
      try await server.remove()
      throw error
    }
    try await server.remove()
  }
}
