public import FoundationEssentials

/// Applies the plain SQL files of a folder, each once, in the order of their names, each in a
/// transaction of its own together with its row in `schema_migrations`.
public struct Migrator: Sendable {
  /// A migration as `status()` sees it.
  public struct Entry: Sendable, Equatable {
    /// Where a migration stands.
    public enum State: Sendable, Equatable {
      /// Not applied yet.
      case pending
      /// Applied, from the same file.
      case applied(Date)
      /// Applied, and there is no such file: a newer server ran here.
      case unknown(Date)
      /// Applied from a file that has been edited since.
      case changed(Date)
    }

    /// The digits that the file's name starts with.
    public let version: String
    /// What follows the digits, without `.sql`.
    public let name: String
    /// Where it stands.
    public let state: State
  }

  /// A migrator for the files in `folder`.
  public init(pool: PostgresPool, folder: String) {
  }

  /// Every migration that there is a file or a row for, in order.
  public func status() async throws -> [Entry] { [] }

  /// The migrations that `apply()` would run.
  public func pending() async throws -> [Entry] { [] }

  /// Runs what is pending. Any number of servers may do this at once.
  ///
  /// - Returns: what this call applied.
  @discardableResult
  public func apply() async throws -> [Entry] { [] }

  /// Runs what is pending in one transaction and rolls it back.
  ///
  /// - Returns: what would be applied.
  public func dryRun() async throws -> [Entry] { [] }
}
