import Actions
import Configuration
import Customers
import Foundation
import HTTP
import JSON
import Postgres
import Subscriptions
import Text
import Work

/// Sends the lifecycle events of a span again, under their ids, also those that were too old to be sent.
package struct ReplayEventsRequest: SupportRequest {
  package static let operation = SupportOperation.replayEvents

  /// When receiptd learned the first event.
  var since: Date
  /// When it learned the first event that is not sent.
  var until: Date
  /// The only app; `nil` for all that receive events.
  var bundleID: String?
  /// The only type; `nil` for all.
  var type: String?

  package init(since: Date, until: Date, bundleID: String? = nil, type: String? = nil) {
    self.since = since
    self.until = until
    self.bundleID = bundleID
    self.type = type
  }

  package func run(
    at desk: Outbox, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> EventReplayResult {
    guard since < until else { throw SupportRefusal.invalid("'since' must be before 'until'.") }
    return try await desk.replayEvents(self, in: since..<until, by: author, isDryRun: isDryRun)
  }
}

extension Outbox {
  fileprivate func replayEvents(
    _ request: ReplayEventsRequest, in span: Range<Date>, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> EventReplayResult {
    let (bundleID, type) = (request.bundleID, request.type)
    if let type, LifecycleEventType(rawValue: type) == nil {
      let known = LifecycleEventType.allCases.map(\.rawValue).joined(separator: ", ")
      throw SupportRefusal.invalid("There is no event '\(type)'; there are \(known).")
    }
    let apps = try bundleID.map { [try catalog.app(named: $0)] } ?? catalog.apps
    let places = apps.flatMap { app in
      app.webhooks.flatMap { endpoint in
        LifecycleEventType.allCases.map(\.rawValue)
          .filter { endpoint.receives($0) && (type == nil || type == $0) }
          .map { (type: $0, bundleID: app.bundleID, endpoint: endpoint.name) }
      }
    }
    guard !places.isEmpty else {
      throw SupportRefusal.notFound(
        "No webhook of \(bundleID ?? "any app") receives \(type ?? "lifecycle events").")
    }
    let kinds = Set(places.map { EventKind(type: $0.type, bundleID: $0.bundleID) })
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let counts = try await connection.query(
        LifecycleEventRows.count(kinds.map { ($0.type, $0.bundleID) }, in: span)
      ).map { (type: try $0.decode("type", as: String.self), count: try $0.decode("events", as: Int.self)) }
      let result = EventReplayResult(
        events: counts.map { .init(type: $0.type, count: $0.count) }, isDryRun: isDryRun)
      if isDryRun { return result }
      let actions = apps.filter { app in kinds.contains { $0.bundleID == app.bundleID } }.map {
        SupportAction(
          name: "replay-events", bundleID: $0.bundleID,
          details: [
            "since": .string(span.lowerBound.rfc3339), "until": .string(span.upperBound.rfc3339),
            "type": type.map { .string($0) } ?? .null, "events": .integer(result.total),
          ])
      }
      _ = try await connection.pipeline([
        LifecycleEventRows.replay(places, in: span, at: instant),
        SupportActionRows.insert(actions, by: author, at: instant),
      ])
      return result
    }
  }

  private struct EventKind: Hashable {
    var type: String
    var bundleID: String
  }
}

/// The result of `receiptd replay-events`.
package struct EventReplayResult: Encodable, Sendable, CustomStringConvertible {
  /// The events of one type.
  struct Count: Encodable, Sendable {
    var type: String
    var count: Int
  }

  let events: [Count]
  let isDryRun: Bool

  var total: Int { events.reduce(0) { $0 + $1.count } }

  /// A line for each type and one for all.
  package var description: String {
    let lines = events.map { "\($0.type): \($0.count)" }
    let noun = total == 1 ? "event" : "events"
    return (lines + ["\(total) \(noun) \(isDryRun ? "would be sent" : "queued") again"]).joined(
      separator: "\n")
  }
}
