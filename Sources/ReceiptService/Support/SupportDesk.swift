import AppStore
import Configuration
import Foundation
import Identifiers
import Logging
import Postgres
import Subscriptions
import Work

/// The actions of support, for the commands and the support API.
///
/// Each action is one transaction that also records its author and reason. A repeated action takes effect once, or is
/// refused with the reason.
public struct SupportDesk: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let ledger: LedgerWriter
  /// The App Store Server API of each app that has a key, by bundle id.
  let apis: [String: AppStoreServerAPI]
  let signed: SignedPurchases
  let clock: ServiceClock
  let logger: Logger

  var statusWriter: CustomerStatusWriter {
    CustomerStatusWriter(catalog: catalog, clock: clock, logger: logger)
  }

  func app(named bundleID: String) throws(SupportRefusal) -> App {
    if let app = catalog[bundleID] { return app }
    let known = catalog.apps.map(\.bundleID).sorted().joined(separator: ", ")
    throw .notFound("There is no app '\(bundleID)'; configured are \(known).")
  }

  /// Checks the days of a grant or a trial extension. The limit of agents is the configuration's `support.agentGrantDays`.
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
  /// The customer of this app with this id: a user's UUID or a device id.
  func customer(named text: String) throws(SupportRefusal) -> Customer {
    switch customer {
    case .user:
      guard let id = UUID(rfc9562: text) else {
        throw .invalid("Customers of \(bundleID) are users, and '\(text)' is not a user's UUID.")
      }
      return .user(id)
    case .device:
      guard let device = try? DeviceID(text) else {
        throw .invalid(
          "Customers of \(bundleID) are devices, named by 1 to \(DeviceID.maximumLength) bytes without control characters, "
            + "and without white space at the ends."
        )
      }
      return .device(device.name)
    }
  }

  /// - Throws: for a tier that is not in the catalog.
  func checkTier(_ tier: String) throws(SupportRefusal) {
    guard tiers[tier] == nil else { return }
    throw .notFound(
      "\(bundleID) has no tier '\(tier)'; it has \(tiers.keys.sorted().joined(separator: ", ")).")
  }
}
