import Foundation
import Identifiers
import Postgres
import Subscriptions

extension SupportDesk {
  /// The customers with this id: also a user whom no record names but a notification that waits.
  func knownCustomers(_ id: String) async throws -> [ErasedCustomer] {
    do {
      return try await namedCustomers(id)
    } catch let refusal as SupportRefusal where refusal.kind == .notFound {
      guard let user = UUID(rfc9562: id) else { throw refusal }
      let instant = clock.now()
      let unknown = ErasedCustomer(.user(user), of: [], in: catalog, at: instant)
      let waiting = try await pool.withConnection { try await found(unknown, $0) }.waiting
      guard !waiting.isEmpty else { throw refusal }
      let apps = Set(waiting.compactMap(\.bundleID)).filter { catalog[$0]?.customer == .user }
      return [ErasedCustomer(.user(user), of: apps.sorted(), in: catalog, at: instant)]
    }
  }

  /// The customers with exactly this id: one, or two if a user and a device have it. An order or an address is not enough to
  /// hand out or to erase a person's data: support looks first whom it names.
  /// - Throws: ``SupportRefusal``; errors of the database.
  private func namedCustomers(_ text: String) async throws -> [ErasedCustomer] {
    let found = try await find(text)
    guard found.isFound else {
      throw SupportRefusal.notFound(
        "\(found.id): \(found.detail.prefix(1).uppercased() + found.detail.dropFirst()).")
    }
    let user = UUID(rfc9562: found.id)
    let device = DeviceID.normalized(found.id)
    var matches = found.search.customers.filter { match in
      match.customer.userID.map { $0 == user } ?? (match.customer.deviceID == device)
    }
    // The id of a paired device finds its parent. The device itself is a person's too.
    if matches.isEmpty, found.search.kinds.contains(.childDevice) {
      matches = found.search.customers.map { CustomerSearch.Match(.device(device), of: $0.bundleID) }
    }
    guard !matches.isEmpty else {
      let named = Set(found.search.customers.map { "\($0.customer.kindWord) \($0.customer.id)" }).sorted()
      throw SupportRefusal.invalid(
        "\(found.id) is not the id of a customer. "
          + (named.isEmpty
            ? "No customer has this purchase."
            : "It leads to \(named.joined(separator: ", ")): give that id."))
    }
    let instant = clock.now()
    return Dictionary(grouping: matches, by: \.customer).sorted { $0.key.kindWord < $1.key.kindWord }.map {
      ErasedCustomer($0.key, of: Set($0.value.map(\.bundleID)).sorted(), in: catalog, at: instant)
    }
  }

  /// The customer with purchases and waiting notifications. No index finds a token.
  func found(
    _ customer: ErasedCustomer, _ connection: PostgresConnection
  ) async throws -> ErasedCustomer {
    var found = try customer.with(await connection.query(customer.findPurchases, timeout: .seconds(60)))
    found.waiting = try await connection.query(found.findWaiting, timeout: .seconds(60))
      .map(ErasedCustomer.Waiting.init)
    return found
  }
}
