import Foundation
import TestProcess

/// A PgBouncer in front of a database. It is removed by `remove()`, or when the process ends for any reason.
public struct PrivatePgBouncer: Sendable {
  /// The port on 127.0.0.1 that it listens on.
  public let port: UInt16
  private let folder: String

  /// The pool mode: when a server connection may go to another client.
  public enum Mode: String, Sendable, CaseIterable {
    /// When the client disconnects.
    case session
    /// After each transaction.
    case transaction
  }

  /// Starts a PgBouncer in front of a database's server.
  /// - Parameter settings: settings of its `[pgbouncer]` section, which override the defaults.
  public static func start(
    before database: TestDatabase, in mode: Mode = .transaction, settings: [String: String] = [:]
  ) async throws -> PrivatePgBouncer {
    let folder = "/tmp/receiptd-test.\(UUID().uuidString)"
    try atEndOfProcess(script, remove: folder)
    let lines = settings.map { "\($0) = \($1)" }.joined(separator: "\n")
    let output = try await run(["start", folder, "\(database.port)", mode.rawValue], settings: lines)
    let text = String(decoding: output, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    guard let port = UInt16(text) else { throw NoPort(output: text) }
    return PrivatePgBouncer(port: port, folder: folder)
  }

  /// Stops PgBouncer and deletes its folder.
  public func remove() async throws { _ = try await Self.run(["remove", folder]) }

  /// The script printed no port.
  struct NoPort: Error { let output: String }

  private static let script = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../scripts/private-pgbouncer").standardizedFileURL.path

  private static func run(_ arguments: [String], settings: String = "") async throws -> Data {
    var command = Command(script, arguments)
    command.environment["PGBOUNCER_SETTINGS"] = settings
    return try await command.output()
  }
}
