/// An action of support as one value: the command line, the support API and the console run the same one.
///
/// Its properties are the members of the request's body (docs/openapi.yaml), beside the author's members. An action has
/// the least role of its ``operation``, a preview, and a record in `support_actions`, which it writes in its own
/// transaction.
package protocol SupportRequest: Codable, Sendable, SendableMetatype {
  /// The part of the service that carries it out.
  associatedtype Desk
  /// What it did, in words for a terminal.
  associatedtype Answer: CustomStringConvertible, Sendable

  /// The operation, which has the least role.
  static var operation: SupportOperation { get }
  /// What follows the operation's name in the route's path.
  static var subpath: String { get }
  /// Whether it can tell what it would do.
  static var hasPreview: Bool { get }

  /// Carries it out and records it. Callers use ``perform(at:by:isDryRun:)``, which checks the author's role.
  ///
  /// - Parameter isDryRun: whether to write nothing, and to answer as if it had been written.
  func run(at desk: Desk, by author: SupportAuthor, isDryRun: Bool) async throws -> Answer
}

extension SupportRequest {
  package static var subpath: String { "" }
  package static var hasPreview: Bool { true }

  /// Carries out the action in the author's name.
  ///
  /// - Parameter isDryRun: whether to write nothing, and to answer as if it had been written.
  /// - Throws: ``SupportRefusal``, also for a role that is too low and for a preview of an action that has none; errors
  ///   of the action.
  package func perform(
    at desk: Desk, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> Answer {
    try author.actor.check(Self.operation)
    guard Self.hasPreview || !isDryRun else {
      throw SupportRefusal.invalid("'\(Self.operation.rawValue)' has no dry run.")
    }
    return try await run(at: desk, by: author, isDryRun: isDryRun)
  }
}
