import Foundation
import TestProcess

/// A PostgreSQL server that a test may stop and start. It is removed by `remove()`, or when the process ends for any
/// reason.
public struct PrivatePostgres: Sendable {
  /// The server's own database.
  public let uri: String
  private let folder: String

  /// Starts a server in a new folder under `/tmp`.
  ///
  /// - Parameter options: server settings, for instance `-c max_connections=10`.
  public static func start(options: String = "-c fsync=off") async throws -> PrivatePostgres {
    let folder = "/tmp/receiptd-test.\(UUID().uuidString)"
    // Removes the folder after a crash or an interrupt of the tests.
    try atEndOfProcess(script, remove: folder)
    let uri = try await run("start", folder, options)
    return PrivatePostgres(uri: uri.trimmingCharacters(in: .whitespacesAndNewlines), folder: folder)
  }

  /// Stops the server at once, as a crash would.
  public func down() async throws { _ = try await Self.run("down", folder) }

  /// Restarts the server as an administrator does: every session gets a fatal error.
  public func restart() async throws { _ = try await Self.run("restart", folder) }

  /// Starts the server again.
  public func up() async throws { _ = try await Self.run("up", folder, "-c fsync=off") }

  /// Stops the server and deletes its folder.
  public func remove() async throws { _ = try await Self.run("remove", folder) }

  private static let script = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "scripts/private-postgres").path

  private static func run(_ action: String, _ folder: String, _ options: String = "") async throws -> String {
    var command = Command(script, [action, folder])
    command.environment["PG_OPTIONS"] = options
    return String(decoding: try await command.output(), as: UTF8.self)
  }
}

/// Starts a script that removes a server's folder, if it still exists, when this process has ended.
func atEndOfProcess(_ script: String, remove folder: String) throws {
  try Command("/bin/sh", ["-c", #"[ ! -e "$2" ] || "$1" remove "$2""#, "sh", script, folder])
    .startAtEndOfProcess()
}
