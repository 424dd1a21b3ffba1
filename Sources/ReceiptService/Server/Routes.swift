import APIDescription
import Console
import Crypto
import Customers
import Deliveries
import Foundation
import HTTP
import HTTPTypes
import Ledger
import Logging
import Numbers
import Postgres
import Proofs
import Requests
import Subscriptions
import Support
import Work

extension Service {
  /// The routes for clients and the App Store.
  ///
  /// Almost every response is about one customer, so responses are not cacheable by default. `ProofRoom` has
  /// `/api/v1/subscriptions/validate`, `/api/v1/profiles` and `/api/v1/trials`, `CustomerRoom` `/api/v1/devices`,
  /// `DeliveryRoom` `/api/v1/consent`.
  package var clientRouter: Router {
    var router = Router(cacheControl: "no-store")
    router.group([keepRefusals, limitRate, mapDatabaseErrors]) { router in
      for room in rooms { room.addRoutes(to: &router) }
    }
    router.group([limitRate, mapDatabaseErrors]) { router in
      router.on(.post, "/api/v1/events", maximumBodyLength: 64 << 10, numbers.events.respond(to:))
    }
    router.group([mapDatabaseErrors]) { router in
      router.on(
        .post, "/api/v1/subscriptions/webhook", maximumBodyLength: 256 << 10, notifications.respond(to:))
    }
    router.onImmediate(.get, "/.well-known/jwks.json") { _ in
      try self.signer.keySet(at: self.clock.now())
    }
    router.onImmediate(.get, "/openapi.yaml") { DescriptionRoute.respond(to: $0) }
    return router
  }

  /// The routes for operators. Their responses are about customers or the current state, so none is cacheable.
  package var adminRouter: Router {
    var router = Router(cacheControl: "no-store")
    router.onImmediate(.get, "/healthz") { _ in .text(.ok, "ok\n") }
    addMetricsRoute(to: &router)
    router.on(.get, "/readyz", readiness.respond(to:))
    if supportToken != nil { router.group([mapDatabaseErrors], routes: addSupportRoutes(to:)) }
    let console = console
    console.addRoutes(to: &router)
    console.addImmediateRoutes(to: &router)
    return router
  }

  /// Keeps a refusal for support, and adds to its log line what the request names.
  private func keepRefusals(_ next: @escaping Responder) -> Responder {
    { request in
      do {
        return try await next(request)
      } catch var problem as Problem {
        let kept = self.sharedResources.refusedAttempts.note(request, problem, in: self.apps)
        // A flood of these must cost little, and they are not logged.
        if problem.status != .tooManyRequests {
          let named = kept ?? RefusedAttempt(request, problem, in: self.apps, at: self.clock.now())
          problem.logFields.merge(self.logFields(of: named)) { $1 }
        }
        throw problem
      }
    }
  }

  private func logFields(of named: RefusedAttempt) -> [String: String] {
    var fields: [String: String] = [:]
    fields["app"] = named.bundleID
    fields["customer"] = (named.userID?.uuidString.lowercased() ?? named.deviceID)
      .flatMap(sharedResources.logKey.hash)
    return fields
  }

  /// Applies the rate limits of clients; see ``ClientRateLimits``.
  private func limitRate(_ next: @escaping Responder) -> Responder {
    { request in
      try self.rateLimits.admit(request)
      return try await next(request)
    }
  }

  /// Maps an unavailable database to 503 `database_unavailable`.
  private func mapDatabaseErrors(_ next: @escaping Responder) -> Responder {
    { request in
      do {
        return try await next(request)
      } catch let error as PostgresError where error.isAnsweredUnavailable {
        if error.isSchemaIncomplete { self.logger.reportIncompleteSchema(error) }
        throw ServiceError.databaseUnavailable
      }
    }
  }
}

/// `GET /openapi.yaml`: the description of the API.
enum DescriptionRoute {
  /// For how long caches may keep it without revalidation, in seconds.
  private static let maximumAge = 3_600

  private static let entityTag =
    "\"" + SHA256.hash(data: APIDescription.yaml).prefix(16).map(hexadecimal).joined() + "\""

  static func respond(to request: Request) -> Response {
    let headers: HTTPFields = [
      .contentType: "application/yaml", .eTag: entityTag,
      .cacheControl: "public, max-age=\(maximumAge)",
    ]
    guard !hasCurrentCopy(request) else {
      var kept = headers
      kept[.contentType] = nil
      return Response(status: .notModified, headers: kept)
    }
    return Response(headers: headers, body: APIDescription.yaml)
  }

  /// Whether `If-None-Match` has the entity tag (RFC 9110 section 13.1.2). The tag contains no comma, so splitting the
  /// list at commas is enough.
  private static func hasCurrentCopy(_ request: Request) -> Bool {
    guard let field = request.headers[.ifNoneMatch] else { return false }
    return field.split(separator: ",").contains { item in
      let candidate = item.drop { $0 == " " || $0 == "\t" }
      let tag = candidate.hasPrefix("W/") ? candidate.dropFirst(2) : candidate
      return candidate == "*" || tag.hasPrefix(entityTag)
    }
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
  }
}

/// `GET /readyz`: whether this process can serve requests now.
struct Readiness: Sendable {
  let sharedResources: SharedResources

  private struct Answer: Encodable {
    var ready: Bool
    var database: String
  }

  func respond(to request: Request) async throws -> Response {
    // A load balancer must stop sending requests before connections are refused.
    if sharedResources.isDraining {
      return try Response.json(.serviceUnavailable, Answer(ready: false, database: "stopping"))
    }
    do {
      let isMigrated = try await sharedResources.migrator.pending().isEmpty
      let missing = isMigrated ? try await missingTables() : ""
      guard missing.isEmpty else {
        return try Response.json(
          .serviceUnavailable, Answer(ready: false, database: "tables are missing: \(missing)"))
      }
      return try Response.json(
        isMigrated ? .ok : .serviceUnavailable,
        Answer(ready: isMigrated, database: isMigrated ? "migrated" : "migrations are pending"))
    } catch {
      return try Response.json(
        .serviceUnavailable, Answer(ready: false, database: "cannot be reached"))
    }
  }

  /// The tables that are missing although all migrations are applied, for example while a backup is restored.
  private func missingTables() async throws -> String {
    try await sharedResources.pool.query(
      """
      SELECT coalesce(string_agg(relation, ', ' ORDER BY relation), '') AS tables FROM receiptd_rights()
      WHERE to_regclass(relation) IS NULL
      """
    )[0].decode("tables")
  }
}
