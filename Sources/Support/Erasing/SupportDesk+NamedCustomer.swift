import Actions
import Configuration
import Customers
import Foundation
import Identifiers
import Postgres
import Subscriptions
import Work

extension SupportDesk {
  /// The customer with exactly this id: also a user whom no record names but a notification that waits. An order or an
  /// address is not enough to hand out or to erase a person's data: support looks first whom it names.
  ///
  /// Another spelling is another customer: ``find(_:by:)`` corrects the case and white space of an id, and an export or
  /// an erasure must not. Only a user's UUID has any case.
  /// - Parameter bundleID: the app; needed if the id is a customer of several apps.
  /// - Throws: ``SupportRefusal``; errors of the database.
  func knownCustomer(_ text: String, of bundleID: String?) async throws -> ErasedCustomer {
    let found = try await find(text)
    let waiting = try await userOfWaiting(text, unless: found)
    if found.isFound, found.id == text {
      return try await recorded(found, or: waiting, of: bundleID)
    }
    if let waiting {
      let chosen = try Self.chosen(bundleID, from: waiting.apps, of: text)
      return named(.user(waiting.user), of: chosen, among: waiting.apps)
    }
    guard !found.isFound else {
      throw SupportRefusal.notFound(
        "Nothing has the id \(text) as it is written, but \(found.detail) exists. Give the id of the customer in its exact "
          + "spelling.")
    }
    throw SupportRefusal.notFound(
      "\(found.id): \(found.detail.prefix(1).uppercased() + found.detail.dropFirst()).")
  }

  /// A user whom notifications that wait name, and the configured apps of those notifications.
  private typealias UserOfWaiting = (user: UUID, apps: [String])

  /// The user with this UUID, if no record but a notification that waits names the user.
  private func userOfWaiting(
    _ text: String, unless found: FindResult
  ) async throws -> UserOfWaiting? {
    guard let user = UUID(rfc9562: text),
      !found.search.customers.contains(where: { $0.customer.userID == user })
    else { return nil }
    let unknown = ErasedCustomer(.user(user), of: [], in: catalog, at: clock.now())
    let named = try await pool.withConnection { try await self.found(unknown, $0) }
    guard !named.waiting.isEmpty || !named.foreign.isEmpty else { return nil }
    let apps = Set(named.waiting.compactMap(\.bundleID)).filter { catalog[$0]?.customer == .user }
    return (user, apps.sorted())
  }

  /// - Parameter apps: the apps that have a customer with this id, of either kind. An app that only the row of a table
  ///   names that other apps write to, too, is none: the user is erased with the last one of these.
  private func named(
    _ customer: Customer, of chosen: [String], among apps: [String]
  ) -> ErasedCustomer {
    // An app that is not configured now may have the customer too.
    let namesakes = apps.filter {
      !chosen.contains($0) && catalog[$0]?.customer ?? customer.kind == customer.kind
    }
    return ErasedCustomer(
      customer, of: chosen, hasNamesake: !namesakes.isEmpty, in: catalog, at: clock.now())
  }

  /// The customer that was found, if the id is the customer's own.
  /// - Parameter waiting: the user with the same UUID whom notifications alone name: another client may have named its
  ///   device like the user.
  private func recorded(
    _ found: FindResult, or waiting: UserOfWaiting?, of bundleID: String?
  ) async throws -> ErasedCustomer {
    // The id of a paired device finds its parent. The device itself is a person's too, also beside a customer of
    // another app.
    let matches = found.search.customers(named: found.id, withUnlisted: true)
    // Notifications of apps that were never configured name a user of any app.
    let userApps =
      waiting.map { waiting in
        waiting.apps.isEmpty ? catalog.apps.filter { $0.customer == .user }.map(\.bundleID) : waiting.apps
      } ?? []
    // A client may have given a device the id of another customer's purchase or order, or an address.
    let leadsToOthers =
      !found.search.kinds.isDisjoint(with: [.transaction, .order, .email]) || found.id.contains("@")
      || OrderLookup.isOrderID(found.id.uppercased()) || waiting != nil
    if bundleID == nil, !matches.isEmpty, leadsToOthers {
      throw SupportRefusal.invalid(
        "\(found.id) is the id of a customer, and may lead to another one too: look at it with find. To mean the customer with exactly "
          + "this id, name its app, with --bundle (support API: \"bundleID\")."
          + (userApps.isEmpty
            ? ""
            : " Notifications that wait name a user with this id, of \(userApps.joined(separator: ", "))."))
    }
    let own = Set(matches.map(\.bundleID)).sorted()
    let namesakes = try await namesakes(of: found.id)
    let apps = Set(own + namesakes.map(\.bundleID) + userApps).sorted()
    let recordedApps = apps.filter { !found.search.profileApps.contains($0) }
    // A sign-up alone is of all apps, and has no record in any.
    let chosen =
      matches.isEmpty || found.search.isSignUpAlone && namesakes.isEmpty && bundleID == nil
      ? own : try Self.chosen(bundleID, from: apps, of: found.id)
    if let waiting, userApps.contains(where: chosen.contains) {
      return named(.user(waiting.user), of: chosen, among: waiting.apps)
    }
    guard let customer = matches.first(where: { chosen.contains($0.bundleID) })?.customer else {
      let named = Set(
        (found.search.customers + namesakes).map { "\($0.customer.kindWord) \($0.customer.id)" }
      ).sorted()
      throw SupportRefusal.invalid(
        "\(found.id) is not the id of a customer. "
          + (named.isEmpty
            ? "No customer has this purchase."
            : "It leads to \(named.joined(separator: ", ")): give that id."))
    }
    return named(customer, of: chosen, among: recordedApps)
  }

  /// The customers whose id is this UUID in lower case, as the database writes it, if the UUID was given in another
  /// case. A device of another app may have a user's UUID as its id.
  private func namesakes(of id: String) async throws -> [CustomerSearch.Match] {
    guard let stored = UUID(rfc9562: id)?.uuidString.lowercased(), stored != id else { return [] }
    return try await pool.withConnection { connection in
      try await CustomerSearch(stored, in: catalog, connection).customers(named: stored)
    }
  }

  /// The app that support named, or else the only app that knows the id: the same id in two apps may be two persons.
  /// - Parameter apps: the apps that know the id.
  private static func chosen(
    _ bundleID: String?, from apps: [String], of id: String
  ) throws(SupportRefusal) -> [String] {
    guard let bundleID else {
      guard apps.count <= 1 else {
        throw .invalid(
          "\(id) is a customer of \(apps.joined(separator: ", ")). Name one app, with --bundle (support API: "
            + "\"bundleID\").")
      }
      return apps
    }
    guard apps.contains(bundleID) else {
      let known = apps.isEmpty ? "no app" : apps.joined(separator: ", ")
      throw .notFound("\(bundleID) has no customer \(id); the id is a customer of \(known).")
    }
    return [bundleID]
  }

  /// The customer with purchases, also those that others have, and waiting notifications. No index finds a token.
  func found(
    _ customer: ErasedCustomer, _ connection: PostgresConnection
  ) async throws -> ErasedCustomer {
    var found = try customer.with(
      await connection.query(customer.findPurchases, timeout: ErasedCustomer.timeout))
    found = try found.with(trialLocks: await connection.query(found.findTrialLocks))
    found = try found.with(
      waiting: await connection.query(found.findWaiting, timeout: ErasedCustomer.timeout))
    return try found.with(others: await connection.query(found.findOthersPurchases))
  }
}
