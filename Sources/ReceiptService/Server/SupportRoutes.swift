import Actions
import Adoption
import Console
import Customers
import Deliveries
import HTTP
import HTTPTypes
import JSON
import Ledger
import Numbers
import Postgres
import Proofs
import Requests
import Subscriptions
import Support

/// The support API: the actions of the commands, under the same names, for a support tool.
extension Service {
  func addSupportRoutes(to router: inout Router) {
    /// Adds a route. Its path begins with the operation's name, so that each route has the least role of
    /// ``SupportOperation``.
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
    on(.get, .numbers, "/{view}") { request, _ in try await self.numbers.route.respond(to: request) }
    on(.get, .customer, "/{id}") { request, actor in
      let report = try await self.support.customer(request.parameters.require("id"), by: actor)
      guard !report.isEmpty else { throw Problem.notFound(report.found.detail.asSentence) }
      return .json(.ok, report)
    }
    on(.get, .find, "/{what}") { request, actor in
      .json(.ok, try await self.support.find(request.parameters.require("what"), by: actor))
    }
    on(.get, .exportCustomer, "/{customer}") { request, _ in
      try .json(
        .ok,
        await self.support.exportCustomer(
          request.parameters.require("customer"), bundleID: request.query["bundleID"]))
    }
    on(.get, .people) { _, _ in try await .json(.ok, self.people.list()) }
    for action in supportActions { on(.post, action.operation, action.subpath, action.respond) }
  }

  /// The actions of support, in the order of the ways to them on a customer's page.
  var supportActions: [ServedAction] {
    [
      served(ConsoleAction.refresh), served(answering: .created, ConsoleAction.grant),
      served(ConsoleAction.revokeGrant), served(answering: .created, ConsoleAction.note),
      served(ConsoleAction.extendTrial), served(ConsoleAction.transfer), served(ConsoleAction.extendRenewal),
      served(ConsoleAction.refundAnswer), served(ConsoleAction.resetDeviceSecret),
      served(ConsoleAction.eraseCustomer), served(ConsoleAction.freeAccess),
      served(ConsoleAction.requeue, ConsoleAction.requeueAll), served(ConsoleAction.replay),
      served(answering: .created, ConsoleAction.addPerson), served(ConsoleAction.removePerson),
    ]
  }

  /// An action with its route and its forms.
  private func served<Action: SupportRequest>(
    answering status: HTTPResponse.Status = .ok,
    _ forms: (@escaping ConsoleAction.Perform<Action>) -> ConsoleAction...
  ) -> ServedAction where Action.Desk: ServiceDesk, Action.Answer: Encodable {
    ServedAction(Action.self, forms.map { $0(performing()) }) { request, actor in
      let body = try request.authored(Action.self)
      return try .json(body.isDryRun ? .ok : status, await self.perform(body, by: actor))
    }
  }

  private func served<Action: SupportRequest>(
    _ forms: (@escaping ConsoleAction.Perform<Action>) -> ConsoleAction...
  ) -> ServedAction where Action.Desk: ServiceDesk, Action.Answer: JSONWritable {
    ServedAction(Action.self, forms.map { $0(performing()) }) { request, actor in
      .json(.ok, try await self.perform(try request.authored(Action.self), by: actor))
    }
  }

  private func performing<Action: SupportRequest>() -> ConsoleAction.Perform<Action>
  where Action.Desk: ServiceDesk {
    { action, author, isDryRun in try await self.perform(action, by: author, isDryRun: isDryRun) }
  }

  private func perform<Action: SupportRequest>(
    _ body: AuthoredBody<Action>, by actor: SupportActor
  ) async throws -> Action.Answer where Action.Desk: ServiceDesk {
    try await self.perform(body.action, by: body.author(signedInAs: actor), isDryRun: body.isDryRun)
  }
}

/// An action of support as the admin port serves it: a route of the support API, and forms of the console.
struct ServedAction: Sendable {
  let operation: SupportOperation
  let subpath: String
  let forms: [ConsoleAction]
  let respond: @Sendable (Request, SupportActor) async throws -> Response

  init<Action: SupportRequest>(
    _: Action.Type, _ forms: [ConsoleAction],
    respond: @escaping @Sendable (Request, SupportActor) async throws -> Response
  ) {
    (operation, subpath) = (Action.operation, Action.subpath)
    (self.forms, self.respond) = (forms, respond)
  }
}

/// A part of the service that carries out actions of support.
package protocol ServiceDesk {
  /// The service's one.
  static func desk(of service: Service) -> Self
}

extension SupportDesk: ServiceDesk {
  package static func desk(of service: Service) -> SupportDesk { service.support }
}

extension Outbox: ServiceDesk {
  package static func desk(of service: Service) -> Outbox { service.deliveries.outbox }
}

extension WorkDesk: ServiceDesk {
  package static func desk(of service: Service) -> WorkDesk {
    WorkDesk(
      outbox: service.deliveries.outbox,
      queues: [
        StoreCallRows.requeuable, RenewalExtensionRows.requeuable, ClientWriteRows.requeuable,
        OldProofRows.requeuable,
      ])
  }
}

extension Replay: ServiceDesk {
  package static func desk(of service: Service) -> Replay { service.replay }
}

extension People: ServiceDesk {
  package static func desk(of service: Service) -> People { service.people }
}

extension NumberRoom: ServiceDesk {
  package static func desk(of service: Service) -> NumberRoom { service.numbers }
}

extension CustomerRoom: ServiceDesk {
  package static func desk(of service: Service) -> CustomerRoom { service.customers }
}

extension Service {
  /// Carries out an action of support: the one way of commands and of the support API.
  ///
  /// - Parameter isDryRun: whether to write nothing, and to answer as if it had been written.
  /// - Throws: ``SupportRefusal``; errors of the action.
  package func perform<Action: SupportRequest>(
    _ action: Action, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> Action.Answer where Action.Desk: ServiceDesk {
    try await action.perform(at: Action.Desk.desk(of: self), by: author, isDryRun: isDryRun)
  }
}

/// A body of the support API: the members of the action, its author, and whether to write nothing.
private struct AuthoredBody<Action: SupportRequest>: Decodable, Sendable {
  let action: Action
  let isDryRun: Bool
  private let by: String?
  private let reason: String

  private enum Key: CodingKey { case by, reason, dryRun }

  init(from decoder: any Decoder) throws {
    let members = try decoder.container(keyedBy: Key.self)
    action = try Action(from: decoder)
    isDryRun = try members.decodeIfPresent(Bool.self, forKey: .dryRun) ?? false
    by = try members.decodeIfPresent(String.self, forKey: .by)
    reason = try members.decode(String.self, forKey: .reason)
  }

  /// The author of the action. `by` never replaces the name of a person, and a machine's record says that it is a
  /// machine's.
  /// - Throws: ``SupportRefusal`` for a name beside a person's token, and for a bad name or reason.
  func author(signedInAs actor: SupportActor) throws(SupportRefusal) -> SupportAuthor {
    guard let by else { return try SupportAuthor(by: actor, reason: reason) }
    guard case .machine = actor else {
      throw .invalid("'by' is the person of the token, \(actor.name): leave it out.")
    }
    return try SupportAuthor(by: .machine(speakingFor: by), reason: reason)
  }
}

extension Request {
  fileprivate func authored<Action: SupportRequest>(_: Action.Type) throws(Problem) -> AuthoredBody<Action> {
    try requireJSON()
    return try decodeJSON()
  }
}

/// Bounds the connections that requests of support hold: a search may scan a table, and an erasure waits for rows as
/// long as its statements may. So a third of the pool's connections serve support at most; further requests wait in
/// memory. Requests that may ask the App Store, which may be slow, have a third of their own.
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

extension String {
  /// The text with a capital letter and a full stop.
  fileprivate var asSentence: String { prefix(1).uppercased() + dropFirst() + "." }
}
