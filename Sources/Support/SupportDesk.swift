import Actions
import AppStore
import Configuration
import Customers
import Foundation
import HTTP
import Identifiers
import Ledger
import Logging
import Postgres
import Requests
import Subscriptions
import Work

/// The actions of support, for the commands and the support API.
///
/// Each action is one transaction that also records its author and reason. A repeated action takes effect once, or is
/// refused with the reason.
package struct SupportDesk: Room {
  let catalog: AppCatalog
  let customerTransactions: CustomerTransactions
  let ledger: LedgerWriter
  /// The App Store Server API of each app that has a key, by bundle id.
  let apis: [String: AppStoreServerAPI]
  /// The same APIs for jobs and commands, which wait longer.
  let patientAPIs: [String: AppStoreServerAPI]
  let signed: SignedPurchases
  let work: WorkContext

  var pool: PostgresPool { work.pool }
  var clock: ServiceClock { work.clock }
  var logger: Logger { work.logger }

  package init(
    catalog: AppCatalog, customerTransactions: CustomerTransactions, ledger: LedgerWriter,
    apis: [String: AppStoreServerAPI], patientAPIs: [String: AppStoreServerAPI], signed: SignedPurchases,
    _ work: WorkContext
  ) {
    self.catalog = catalog
    self.customerTransactions = customerTransactions
    self.ledger = ledger
    self.apis = apis
    self.patientAPIs = patientAPIs
    self.signed = signed
    self.work = work
  }

  /// Extensions of renewal dates.
  package var renewalExtensions: RenewalExtensions { RenewalExtensions(desk: self, apis: patientAPIs) }

  package var jobs: [BackgroundJob] { [renewalExtensions.job] }

  var statusWriter: CustomerStatusWriter {
    CustomerStatusWriter(catalog: catalog, clock: clock, logger: logger)
  }

  func app(named bundleID: String) throws(SupportRefusal) -> App { try catalog.app(named: bundleID) }

  /// Checks the days of a grant or a trial extension. The limit of agents is the configuration's
  /// `support.agentGrantDays`.
  func checkDays(_ days: Int, by author: SupportAuthor) throws(SupportRefusal) {
    guard (1...AppCatalog.maximumGrantDays).contains(days) else {
      throw .invalid("'days' must be from 1 to \(AppCatalog.maximumGrantDays).")
    }
    if case .person(let person) = author.actor, person.role < .lead, days > catalog.agentGrantDays {
      throw .forbidden(
        "An agent may give at most \(catalog.agentGrantDays) days at once, and \(person.name) has the role "
          + "\(person.role.rawValue). A lead may give \(days) days.")
    }
  }
}

extension App {
  /// - Throws: for a tier that is not in the catalog.
  func checkTier(_ tier: String) throws(SupportRefusal) {
    guard tiers[tier] == nil else { return }
    throw .notFound(
      "\(bundleID) has no tier '\(tier)'; it has \(tiers.keys.sorted().joined(separator: ", ")).")
  }
}

extension SupportDesk {
  /// Refuses a customer id that no record contains: it may be a typing error, and the access would reach no customer.
  /// - Parameter isForced: whether support is sure of the id.
  /// - Throws: ``SupportRefusal`` `notFound`; errors of the database.
  func checkSeen(_ customer: Customer, of app: App, isForced: Bool) async throws {
    guard !isForced else { return }
    try await pool.withConnection {
      try await checkSeen(customer, of: app, isForced: isForced, on: $0)
    }
  }

  /// The same, in a transaction.
  func checkSeen(
    _ customer: Customer, of app: App, isForced: Bool, on connection: PostgresConnection
  ) async throws {
    guard !isForced else { return }
    guard try await isSeen(customer, of: app, connection) else {
      throw SupportRefusal.notFound(
        "\(app.bundleID) has never seen the \(customer.kindWord) '\(customer.id)'. Check the id; if it is right, "
          + "repeat with --force (support API: \"force\": true).")
    }
  }

  func isSeen(_ customer: Customer, of app: App, _ connection: PostgresConnection) async throws -> Bool {
    let search = try await CustomerSearch(customer.id, in: catalog, connection)
    if search.records(CustomerSearch.Match(customer, of: app.bundleID)) { return true }
    guard let user = customer.userID, try await UserDirectory.canRead("id", connection) else { return false }
    return try await UserDirectory.has(user, connection)
  }
}

/// Writes down what support knows of a customer: the reason alone, which stands in the record and in the timeline.
package struct NoteRequest: SupportRequest {
  package static let operation = SupportOperation.note

  /// A user's UUID or a device id, depending on the app.
  var customer: String
  /// The app.
  var bundleID: String

  package init(customer: String, bundleID: String) {
    self.customer = customer
    self.bundleID = bundleID
  }

  package func run(at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool) async throws -> NoteResult
  {
    try await desk.note(self, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func note(
    _ request: NoteRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> NoteResult {
    let app = try app(named: request.bundleID)
    let customer = try app.customer(named: request.customer)
    let instant = clock.now()
    try await customerTransactions.run(locking: [customer.lockName], isDryRun: isDryRun) { connection, _ in
      // Under the lock, because the customer may have been erased meanwhile.
      guard try await isSeen(customer, of: app, connection) else {
        throw SupportRefusal.notFound(
          "\(app.bundleID) has never seen the \(customer.kindWord) '\(customer.id)'. Check the id.")
      }
      _ = try await connection.query(
        SupportActionRows.insert(
          [SupportAction(name: "note", bundleID: app.bundleID, to: customer)], by: author, at: instant))
    }
    return NoteResult(
      customer: customer.id, bundleID: app.bundleID, note: author.reason, isDryRun: isDryRun)
  }
}

/// The result of ``NoteRequest``.
package struct NoteResult: Encodable, Sendable, CustomStringConvertible {
  /// The user or device.
  let customer: String
  /// The app.
  let bundleID: String
  /// What was written down.
  let note: String
  /// Whether nothing was written.
  let isDryRun: Bool

  /// One line.
  package var description: String { "\(customer): \(note)" }
}

/// Maps the refusals of support's actions to responses.
/// - Throws: ``Problem``; other errors of `body`.
package func mappingRefusals<R>(_ body: () async throws -> R) async throws -> R {
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
