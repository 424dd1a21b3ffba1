import HTTP
import HTTPTypes
import Logging
import Postgres

extension Service {
  /// What clients and the App Store reach.
  ///
  /// Almost every answer is about one customer, so that a cache must not keep any that does not say otherwise.
  public var clientRouter: Router {
    var router = Router(cacheControl: "no-store")
    router.on(.post, "/api/v1/subscriptions/validate", maximumBodyLength: 256 << 10) { request in
      try await self.client(request) { try await self.validation.respond(to: request) }
    }
    router.on(.post, "/api/v1/subscriptions/webhook", maximumBodyLength: 256 << 10) { request in
      try await self.answering { try await self.notifications.respond(to: request) }
    }
    router.on(.put, "/api/v1/profiles/{userID}/premium", maximumBodyLength: 2 << 20) { request in
      try await self.client(request) { try await self.profiles.put(request) }
    }
    router.on(.get, "/api/v1/profiles/{userID}/premium") { request in
      try await self.client(request) { try await self.profiles.get(request) }
    }
    router.on(.post, "/api/v1/trials", maximumBodyLength: 64 << 10) { request in
      try await self.client(request) { try await self.trials.respond(to: request) }
    }
    router.on(.get, "/api/v1/devices/{deviceID}/entitlements") { request in
      try await self.client(request) { try await self.devices.get(request) }
    }
    router.on(.post, "/api/v1/devices/{deviceID}/children", maximumBodyLength: 16 << 10) { request in
      try await self.client(request) { try await self.pairing.post(request) }
    }
    router.on(.get, "/api/v1/devices/{deviceID}/children") { request in
      try await self.client(request) { try await self.pairing.get(request) }
    }
    router.on(.delete, "/api/v1/devices/{deviceID}/children/{childDeviceID}") { request in
      try await self.client(request) { try await self.pairing.delete(request) }
    }
    router.on(.post, "/api/v1/events", maximumBodyLength: 64 << 10) { request in
      try await self.client(request) { try await self.events.respond(to: request) }
    }
    router.onImmediate(.get, "/.well-known/jwks.json") { _ in
      try self.signer.keySet(at: self.clock.now())
    }
    router.onImmediate(.get, "/openapi.yaml") { DescriptionRoute.respond(to: $0) }
    return router
  }

  /// What operators reach: the customers of the support API, and figures that a cache would make false.
  public var adminRouter: Router {
    var router = Router(cacheControl: "no-store")
    router.onImmediate(.get, "/healthz") { _ in .text(.ok, "ok\n") }
    addMetricsRoute(to: &router)
    router.on(.get, "/readyz") { request in try await self.readiness.respond(to: request) }
    if let supportToken { addSupportRoutes(to: &router, token: supportToken) }
    return router
  }

  /// What clients ask is counted; see ``TrafficLimits``.
  private func client(
    _ request: Request, _ body: () async throws -> Response
  ) async throws -> Response {
    try traffic.admit(request)
    return try await answering(body)
  }

  /// A database that is away is the contract's 503, wherever it shows.
  func answering(_ body: () async throws -> Response) async throws -> Response {
    do {
      return try await body()
    } catch let error as PostgresError where error.isAnsweredUnavailable {
      if error.isSchemaIncomplete { logger.reportIncompleteSchema(error) }
      throw ServiceError.databaseUnavailable
    }
  }
}

extension Logger {
  /// Names a table, a column or a privilege that is missing: a restore makes it, or it is a fault of ours.
  func reportIncompleteSchema(_ error: PostgresError) {
    self.error("the database lacks something that receiptd needs", metadata: ["reason": "\(error)"])
  }
}
