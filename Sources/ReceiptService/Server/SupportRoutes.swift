import Actions
import Customers
import HTTP
import HTTPTypes
import Identifiers
import Ledger
import Numbers
import Postgres
import Requests
import Subscriptions
import Support

/// The support API: the actions of the commands, under the same names, for a support tool.
extension Service {
  func addSupportRoutes(to router: inout Router) {
    /// Adds a route. Its path begins with the operation's name, so that each route has the least role of ``SupportOperation``.
    func on(
      _ method: HTTPRequest.Method, _ operation: SupportOperation, _ rest: String = "",
      _ handler: @escaping @Sendable (Request, SupportActor) async throws -> Response
    ) {
      router.on(method, "/support/v1/" + operation.rawValue + rest) { request in
        let actor = try await self.signIn.actor(of: request)
        do {
          return try await mappingRefusals {
            try actor.check(operation)
            return try await self.sharedResources.supportPlaces.run(operation) {
              try await handler(request, actor)
            }
          }
        } catch var problem as Problem where problem.status.kind == .clientError {
          // The detail quotes ids that support typed, and names the customers that they lead to.
          problem.loggedDetail = problem.title
          throw problem
        }
      }
    }
    /// Adds a route whose body has an author.
    func act<Body: Decodable & SendableMetatype>(
      _ operation: SupportOperation, _ rest: String = "",
      _ handler: @escaping @Sendable (Body, SupportAuthor) async throws -> Response
    ) {
      on(.post, operation, rest) { request, actor in
        try request.requireJSON()
        let body = try request.decodeJSON(AuthoredBody<Body>.self)
        return try await handler(body.action, body.author(signedInAs: actor))
      }
    }
    on(.get, .numbers, "/{view}") { request, _ in try await self.numbers.route.respond(to: request) }
    on(.get, .customer, "/{id}") { request, actor in
      let report = try await self.support.customer(request.parameters.require("id"), by: actor)
      guard !report.isEmpty else { throw Problem.notFound(report.found.detail.asSentence) }
      return .json(.ok, report)
    }
    on(.get, .find, "/{what}") { request, actor in
      .json(.ok, try await self.support.find(request.parameters.require("what"), by: actor))
    }
    act(.refresh) { (body: RefreshBody, author) in
      .json(.ok, try await self.support.refresh(body.id, by: author))
    }
    act(.grant) { (body: GrantBody, author) in
      try await .json(
        .created,
        self.support.grant(
          to: body.customer, bundleID: body.bundleID, tier: body.tier, days: body.days, by: author,
          isForced: body.force ?? false))
    }
    act(.revokeGrant) { (body: RevokeGrantBody, author) in
      try await .json(.ok, self.support.revokeGrant(body.grant.value, by: author))
    }
    act(.extendTrial) { (body: ExtendTrialBody, author) in
      try await .json(
        .ok,
        self.support.extendTrial(
          of: body.deviceID, bundleID: body.bundleID, days: body.days, by: author,
          isForced: body.force ?? false))
    }
    act(.resetDeviceSecret) { (body: DeviceBody, author) in
      try await .json(
        .ok, self.support.resetDeviceSecret(of: body.deviceID, bundleID: body.bundleID, by: author))
    }
    act(.transfer) { (body: TransferBody, author) in
      .json(
        .ok,
        try await self.support.transfer(
          body.originalTransactionID, to: body.to, by: author, isForced: body.force ?? false,
          isDryRun: body.dryRun ?? false))
    }
    on(.get, .exportCustomer, "/{customer}") { request, _ in
      try .json(
        .ok,
        await self.support.exportCustomer(
          request.parameters.require("customer"), bundleID: request.query["bundleID"]))
    }
    act(.eraseCustomer) { (body: EraseCustomerBody, author) in
      try await .json(
        .ok,
        self.support.eraseCustomer(
          body.customer, bundleID: body.bundleID, by: author, isForced: body.force ?? false,
          isDryRun: body.dryRun ?? false))
    }
    act(.refundAnswer) { (body: RefundAnswerBody, author) in
      try await .json(
        .ok, self.support.preferRefund(body.prefer, for: body.id, bundleID: body.bundleID, by: author))
    }
    act(.extendRenewal) { (body: ExtendRenewalBody, author) in
      try await .json(
        .ok,
        self.support.renewalExtensions.extend(
          body.originalTransactionID, days: body.days, reasonCode: body.reasonCode,
          isDryRun: body.dryRun ?? false, isForced: body.force ?? false, by: author))
    }
    act(.freeAccess) { (body: FreeAccessBody, author) in
      try await .json(
        .ok, self.support.setFreeAccess(body.state == .on, bundleID: body.bundleID, by: author))
    }
    act(.requeue) { (body: RequeueBody, author) in
      switch (body.outbox, body.bundleID) {
      case (let id?, nil): try await .json(.ok, self.requeue(id, by: author))
      case (nil, let bundleID?): try await .json(.ok, self.requeueDead(of: bundleID, by: author))
      default: throw Problem.invalidRequest("Exactly one of 'outbox' and 'bundleID' is needed.")
      }
    }
    act(.replay) { (body: ReplayBody, author) in
      try .json(.ok, ReplayAnswer(try await self.replay(body.notificationUUID.value, by: author)))
    }
    on(.get, .people) { _, _ in try await .json(.ok, self.people.list()) }
    act(.people, "/add") { (body: AddPersonBody, author) in
      try await .json(.created, self.people.add(body.name, role: body.role, by: author))
    }
    act(.people, "/remove") { (body: RemovePersonBody, author) in
      try await .json(.ok, self.people.remove(body.name, by: author))
    }
  }
}

/// Bounds the connections that requests of support hold: a search may scan a table, and an erasure waits for rows as long as its
/// statements may. So a third of the pool's connections serve support at most; further requests wait in memory. Requests that may ask
/// the App Store, which may be slow, have a third of their own.
final class SupportPlaces: Sendable {
  private enum Place: Hashable {
    case database
    case store
  }

  private static let maximumWaiting = 128
  private static let patience = Duration.seconds(5)

  private let turns: Turns<Place>

  init(pool: PostgresPool) {
    turns = Turns(
      atOnce: CustomerTransactions.places(in: pool), maximumWaiting: Self.maximumWaiting,
      patience: Self.patience)
  }

  /// The number of requests that wait for a place.
  var waitingCount: Int { turns.waitingCount }

  /// - Throws: 503 `database_unavailable` where no place comes in time; errors of `body`.
  func run<R>(_ operation: SupportOperation, _ body: () async throws -> R) async throws -> R {
    let place: Place =
      switch operation {
      case .customer, .extendRenewal, .find, .refresh: .store
      default: .database
      }
    do {
      try await turns.take(place)
    } catch {
      throw ServiceError.databaseUnavailable
    }
    defer { turns.end(place) }
    return try await body()
  }
}

/// Maps the refusals of support's actions to responses.
private func mappingRefusals(_ body: () async throws -> Response) async throws -> Response {
  do {
    return try await body()
  } catch let refusal as SupportRefusal {
    throw switch refusal.kind {
    case .invalid: Problem.invalidRequest(refusal.description)
    case .notFound: Problem.notFound(refusal.description)
    case .alreadyDone: ServiceError.alreadyDone(refusal.description)
    case .forbidden: ServiceError.notAllowed(refusal.description)
    }
  } catch let failure as ReplayFailure {
    throw switch failure {
    case .notKept: Problem.notFound("No notification with this UUID is kept.")
    case .erased:
      Problem.invalidRequest("The notification's customer was erased: there is nothing to replay.")
    case .notVerified(let reason):
      Problem.invalidRequest("The notification's signature is not accepted any more: \(reason)")
    }
  }
}

extension String {
  /// The text with a capital letter and a full stop.
  fileprivate var asSentence: String { prefix(1).uppercased() + dropFirst() + "." }
}
