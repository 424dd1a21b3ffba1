import Actions
import AppStore
import Configuration
import Foundation
import Identifiers
import Ledger
import Postgres
import Requests
import Subscriptions

extension SupportDesk {
  /// Finds the customers and purchases of anything that a customer holds: an order id, a transaction id, a user's UUID,
  /// a device's id, the request id of an error message, or an e-mail address. White space at the ends counts if an id
  /// has it.
  ///
  /// An order id that is not known is looked up at the App Store once; the answer is kept. An id that only refused
  /// requests name was never seen; the answer has the requests.
  /// - Parameter actor: the actor in the record of what such a look-up repairs.
  /// - Throws: errors of the database.
  package func find(_ text: String, by actor: SupportActor = .rule("receiptd")) async throws -> FindResult {
    let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
    // An id from before receiptd may begin or end with white space.
    if text != trimmed, text.mayBeID,
      let found = try await pool.withConnection({ try await matches(text, asked: text, $0) })
    {
      return found
    }
    guard trimmed.mayBeID else {
      return FindResult(
        asked: text, outcome: .notAnID, id: trimmed,
        detail: "an id has 1 to 256 bytes and no control characters")
    }
    let bare = String(trimmed.trimmingPrefix { $0 == "#" })
    let found = try await pool.withConnection { try await known(trimmed, asked: text, $0) }
    // Any client may name a device like an order.
    let mayBeOrder = OrderLookup.isOrderID(bare.uppercased()) && found?.search.kinds.contains(.order) != true
    guard let found else { return try await unknown(bare, asked: text, by: actor) }
    guard mayBeOrder else { return found }
    let order = try await unknown(bare, asked: text, by: actor)
    return order.isFound ? order : found.with(order)
  }

  /// Whether ``find(_:by:)`` finds users by e-mail address: the database's role may read `auth.users`.
  /// - Throws: errors of the database.
  package func findsEmailAddresses() async throws -> Bool {
    try await pool.withConnection { try await UserDirectory.canRead("email", $0) }
  }

  /// Searches the database: for the text as it is, then without a leading `#`, then in lower and upper case. Case
  /// matters in device ids, so another case counts only if one spelling has matches. A client chooses the id of its
  /// request, so any other match wins over a refused request.
  private func known(
    _ text: String, asked: String, _ connection: PostgresConnection
  ) async throws -> FindResult? {
    let bare = String(text.trimmingPrefix { $0 == "#" })
    let isAddress = bare.contains("@")
    var request: FindResult?
    for spelling in Set([text, bare]).sorted(by: { $0.count > $1.count }) where !spelling.isEmpty {
      guard let found = try await matches(spelling, asked: asked, connection) else { continue }
      guard !found.isRequest else {
        request = request ?? found
        continue
      }
      return isAddress ? try await found.with(emailOwner(bare, asked: asked, connection)) : found
    }
    if isAddress {
      let owner = try await emailOwner(bare, asked: asked, connection)
      return owner.isFound ? owner : request ?? owner
    }
    var others: [FindResult] = []
    for spelling in Set([bare.lowercased(), bare.uppercased()]).subtracting([text, bare]).sorted() {
      if let found = try await matches(spelling, asked: asked, connection) { others.append(found) }
    }
    if let found = request ?? others.first(where: \.isRequest) {
      others.removeAll(where: \.isRequest)
      if others.isEmpty { return found }
    }
    guard others.count > 1 else { return others.first }
    return FindResult(
      asked: asked, outcome: .neverSeen, id: bare,
      detail: "nothing has this id as it is written, but \(others.map(\.id).joined(separator: " and ")) exist"
    )
  }

  private func matches(
    _ id: String, asked: String, _ connection: PostgresConnection
  ) async throws -> FindResult? {
    var search = try await CustomerSearch(id, in: catalog, connection)
    // A device may be named like a user.
    if let user = UUID(rfc9562: id), !search.customers.contains(where: { $0.customer == .user(user) }),
      search.purchases.isEmpty, try await UserDirectory.canRead("id", connection),
      try await UserDirectory.has(user, connection)
    {
      search.add(signUp: user, of: matches(of: user).map(\.bundleID))
    }
    guard !search.isEmpty else { return nil }
    let words = search.kinds.map(\.words).sorted().joined(separator: ", ")
    let detail = "\(words) \(id)\(search.isKnownOnly ? ", known, without purchase" : "")"
    return FindResult(asked: asked, outcome: .found, id: id, detail: detail, search: search)
  }

  /// A user of the sign-up table is a user of every app whose customers are users.
  private func matches(of user: UUID) -> [CustomerSearch.Match] {
    catalog.apps.filter { $0.customer == .user }.map { CustomerSearch.Match(.user(user), of: $0.bundleID) }
  }

  private func emailOwner(
    _ email: String, asked: String, _ connection: PostgresConnection
  ) async throws -> FindResult {
    guard try await UserDirectory.canRead("email", connection) else {
      return FindResult(
        asked: asked, outcome: .notAnID, id: email,
        detail:
          "receiptd finds no e-mail addresses here: the role of its database may not read auth.users, or there is "
          + "none; ask the customer for the order id in Apple's e-mail")
    }
    var search = CustomerSearch()
    for user in try await UserDirectory.users(withEmail: email, connection) {
      // A device may be named like the user, or be paired as the user's UUID: it has no address.
      let own = try await CustomerSearch(user.uuidString.lowercased(), in: catalog, connection).customers
        .filter { $0.customer == .user(user) }
      search.add(own.isEmpty ? matches(of: user) : own, as: .email)
    }
    guard !search.customers.isEmpty else {
      return FindResult(
        asked: asked, outcome: .neverSeen, id: email, detail: "no user signed up with this e-mail address")
    }
    return FindResult(
      asked: asked, outcome: .found, id: email, detail: "e-mail address \(email)", search: search)
  }

  /// The answer about an id that the database does not have.
  private func unknown(
    _ id: String, asked: String, by actor: SupportActor
  ) async throws -> FindResult {
    func answer(_ outcome: FindResult.Outcome, _ detail: String) -> FindResult {
      FindResult(asked: asked, outcome: outcome, id: id, detail: detail)
    }
    if id.isTransactionID {
      return answer(
        .askApple, "no transaction \(id) is recorded; receiptd refresh \(id) asks the App Store")
    }
    let order = id.uppercased()
    if OrderLookup.isOrderID(order) { return try await lookedUp(order, asked: asked, by: actor, answer) }
    let hasDevices = catalog.apps.contains { $0.customer == .device }
    let isUUID = UUID(rfc9562: id) != nil
    guard !id.isEmpty, isUUID || hasDevices || id.isRequestID, !id.contains(where: \.isWhitespace),
      id.utf8.count <= 128
    else {
      return answer(
        .notAnID,
        "no id of these apps looks like this: order ids begin with M, transaction ids are digits, "
          + "user ids are UUIDs")
    }
    let refusals = try await pool.query(RefusedAttemptRows.last(5, naming: id)).map(RefusedAttempt.init)
    guard refusals.isEmpty else {
      return FindResult(
        asked: asked, outcome: .neverSeen, id: id,
        detail: "only refused requests name \(id), and any client can name any id",
        search: CustomerSearch(refusals: refusals))
    }
    return answer(.neverSeen, "no record contains \(id); check the id with the customer")
  }

  private func lookedUp(
    _ order: String, asked: String, by actor: SupportActor,
    _ answer: (FindResult.Outcome, String) -> FindResult
  ) async throws -> FindResult {
    let lookup = OrderLookup(
      catalog: catalog, apis: apis, signed: signed, ledger: ledger, pool: pool, clock: clock,
      actor: actor)
    switch try await lookup.look(up: order) {
    case .recorded:
      if let found = try await pool.withConnection({ try await matches(order, asked: asked, $0) }) {
        return found
      }
      throw ServiceError.internalError
    case .unknown: return answer(.notAnID, "the App Store has no order \(order) of these apps")
    case .unavailable(let reason):
      return answer(
        .askApple, "no order \(order) is recorded, and the App Store could not be asked: \(reason)")
    }
  }
}

extension String {
  /// Whether the text is short enough for an id, and has no control characters of ASCII.
  fileprivate var mayBeID: Bool {
    (1...256).contains(utf8.count) && utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
  }

  /// Whether the text has the form of a request id that receiptd makes.
  fileprivate var isRequestID: Bool { utf8.count == 32 && allSatisfy(\.isHexDigit) }
}

/// Supabase's `auth.users`, where this role may read it.
enum UserDirectory {
  /// Whether this role reads a column of `auth.users`, and sees all rows.
  static func canRead(_ column: String, _ connection: PostgresConnection) async throws -> Bool {
    let rows = try await connection.query(
      """
      SELECT CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN has_column_privilege(c.oid, 'id', 'SELECT')
        AND has_column_privilege(c.oid, a.attnum, 'SELECT') AND NOT row_security_active(c.oid)
        ELSE false END AS is_readable
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = \(column) AND NOT a.attisdropped
      WHERE n.nspname = 'auth' AND c.relname = 'users'
      """)
    return try rows.first?.decode("is_readable", as: Bool.self) ?? false
  }

  /// The users with an e-mail address.
  /// - Precondition: ``canRead(_:_:)`` of `email`.
  static func users(withEmail email: String, _ connection: PostgresConnection) async throws -> [UUID] {
    // Supabase stores addresses in lower case and has an index on them. Others may have stored them as typed.
    let stored = try await connection.query(
      "SELECT id FROM auth.users WHERE email IN (\(email), \(email.lowercased())) ORDER BY id LIMIT 20")
    guard stored.isEmpty else { return try stored.map { try $0.decode("id") } }
    // All that fit first: for the first few by id PostgreSQL would walk the index of the ids.
    return try await connection.query(
      """
      WITH found AS MATERIALIZED (SELECT id FROM auth.users WHERE lower(email) = lower(\(email)))
      SELECT id FROM found ORDER BY id LIMIT 20
      """
    ).map { try $0.decode("id") }
  }

  /// Whether a user signed up.
  /// - Precondition: ``canRead(_:_:)`` of `id`.
  static func has(_ user: UUID, _ connection: PostgresConnection) async throws -> Bool {
    try await !connection.query("SELECT FROM auth.users WHERE id = \(user)").isEmpty
  }
}
