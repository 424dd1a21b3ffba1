import Postgres
import Subscriptions

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

  private func isSeen(_ customer: Customer, of app: App, _ connection: PostgresConnection) async throws
    -> Bool
  {
    let search = try await CustomerSearch(customer.id, in: catalog, connection)
    if search.customers.contains(CustomerSearch.Match(customer, of: app.bundleID)) { return true }
    guard let user = customer.userID, try await UserDirectory.canRead("id", connection) else { return false }
    return try await UserDirectory.has(user, connection)
  }
}
