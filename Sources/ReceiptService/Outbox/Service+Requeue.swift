import Subscriptions

extension Service {
  /// Has one row of the outbox delivered again, whatever became of it, and opens its place where that was closed.
  /// - Parameter id: as `support_outbox` shows it.
  /// - Throws: ``SupportRefusal`` where there is no such row, and what the database throws.
  public func requeue(_ id: Int64, by author: SupportAuthor) async throws -> RequeueAnswer {
    guard try await outbox.requeue(id: id, by: author.by, reason: author.reason) else {
      throw SupportRefusal.notFound("The outbox has no row \(id).")
    }
    return RequeueAnswer(requeued: 1)
  }

  /// Has everything of an app delivered again that was given up.
  /// - Throws: ``SupportRefusal`` for an app that is not configured, and what the database throws.
  public func requeueDead(of bundleID: String, by author: SupportAuthor) async throws -> RequeueAnswer {
    let app = try support.app(named: bundleID)
    return RequeueAnswer(
      requeued: try await outbox.requeueDead(
        bundleID: app.bundleID, by: author.by, reason: author.reason))
  }
}

/// What is delivered again, as support reads it.
public struct RequeueAnswer: Encodable, Sendable, CustomStringConvertible {
  /// How many rows of the outbox.
  let requeued: Int

  /// One line.
  public var description: String { "\(requeued) \(requeued == 1 ? "delivery" : "deliveries") requeued" }
}
