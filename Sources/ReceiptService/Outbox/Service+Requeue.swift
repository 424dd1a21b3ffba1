import Subscriptions

extension Service {
  /// Makes one row of the outbox due now, in whatever state it is, and reopens its destination if it was disabled.
  /// - Parameter id: the id in `support_outbox`.
  /// - Throws: ``SupportRefusal`` if there is no such row, and errors of the database.
  public func requeue(_ id: Int64, by author: SupportAuthor) async throws -> RequeueResult {
    guard try await outbox.requeue(id: id, by: author) else {
      throw SupportRefusal.notFound("The outbox has no row \(id).")
    }
    return RequeueResult(requeued: 1)
  }

  /// Makes all rows of an app due now that were given up.
  /// - Throws: ``SupportRefusal`` for an app that is not configured, and errors of the database.
  public func requeueDead(of bundleID: String, by author: SupportAuthor) async throws -> RequeueResult {
    let app = try support.app(named: bundleID)
    return RequeueResult(
      requeued: try await outbox.requeueDead(bundleID: app.bundleID, by: author))
  }
}

/// The result of `receiptd requeue`.
public struct RequeueResult: Encodable, Sendable, CustomStringConvertible {
  /// The number of rows of the outbox.
  let requeued: Int

  /// One line.
  public var description: String { "\(requeued) \(requeued == 1 ? "delivery" : "deliveries") requeued" }
}
