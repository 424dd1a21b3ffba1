import Dispatch
import Foundation

/// A PgBouncer in transaction mode in front of a database. It goes away with `remove()`, or when the process ends,
/// however it ends.
public struct PrivatePgBouncer: Sendable {
  /// Where it listens, on 127.0.0.1.
  public let port: UInt16
  private let folder: String

  /// Starts one in front of the server that a database is on.
  public static func start(before database: TestDatabase) async throws -> PrivatePgBouncer {
    let folder = "/tmp/receiptd-test.\(UUID().uuidString)"
    try Shell.atEndOfProcess(#"[ ! -e "$2" ] || "$1" remove "$2""#, arguments: [script, folder])
    let output = try await run("start", folder, "\(database.port)")
    guard let port = UInt16(output.trimmingCharacters(in: .whitespacesAndNewlines)) else {
      throw Shell.Failure(command: [script, "start", folder], status: 0)
    }
    return PrivatePgBouncer(port: port, folder: folder)
  }

  /// Stops it and deletes its folder.
  public func remove() async throws { _ = try await Self.run("remove", folder) }

  private static let script = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../scripts/private-pgbouncer").standardizedFileURL.path

  private static func run(_ arguments: String...) async throws -> String {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue(label: "private-pgbouncer").async {
        continuation.resume(with: Result { try Shell.run([script] + arguments) })
      }
    }
  }
}
