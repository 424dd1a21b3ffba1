import AppStore
import Configuration
import Customers
import Foundation
import Identifiers
import Ledger
import Postgres
import Subscriptions

/// Finds the customers and purchases that have an id in the database.
package struct CustomerSearch: Sendable {
  /// A customer of one app.
  package struct Match: Hashable, Sendable {
    package var customer: Customer
    package var bundleID: String

    init(_ customer: Customer, of bundleID: String) {
      self.customer = customer
      self.bundleID = bundleID
    }

    /// - Returns: `nil` for a row without a customer.
    init?(_ row: Row) throws {
      guard let customer = try Customer(row) else { return nil }
      self.init(customer, of: try row.decode("bundle_id"))
    }
  }

  /// The customers, sorted by app and id.
  package private(set) var customers: [Match] = []
  /// The customers with a paired device of that id, the earliest pairings first, at most ``maximumParents``. They are
  /// among ``customers`` where the id is no customer's own. Any client can pair any id, so they are not reported beside
  /// the customer.
  package private(set) var parents: [Match] = []
  /// The number of further pairings.
  package private(set) var parentsHidden = 0
  /// Devices of the id that are not among ``customers`` where it leads to others: a paired device, and one of which
  /// receiptd has a trace alone, such as its secret or a place that it lost. Any paired device may have a secret, so
  /// support sees its parent.
  private var unlisted: [Match] = []
  /// The apps that nothing names but the user's row in a table to which they write, or the sign-up, which is of all
  /// apps.
  package private(set) var profileApps: Set<String> = []
  /// The original transaction ids of purchases with that id, with or without an owner.
  package private(set) var purchases: [String] = []
  /// The transactions with that id, or of that order.
  package private(set) var transactions: [NamedTransaction] = []
  /// The refused requests with that id, if it is a request's id.
  package private(set) var refusals: [RefusedAttempt] = []
  /// What the id names.
  package private(set) var kinds: Set<FoundKind> = []
  /// Whether the id is a user's of whom no purchase, grant, trial or action of support is recorded: the sign-up, a
  /// valid access token, an event or the app's own table names the user.
  package private(set) var isKnownOnly = false
  /// Whether the id is of a sign-up that no record names.
  package private(set) var isSignUpAlone = false

  var isEmpty: Bool { customers.isEmpty && purchases.isEmpty && refusals.isEmpty }

  /// - Parameter id: a user's UUID; the id of a device, a paired device, a transaction or a refused request; or an
  ///   order id that was looked up before.
  init(_ id: String, in catalog: AppCatalog, _ connection: PostgresConnection) async throws {
    self.init()
    try await add(id, in: catalog, connection)
    let isOrder = OrderLookup.isOrderID(id.uppercased())
    guard isEmpty || isOrder else {
      if kinds.contains(.transaction) { try await addTransactions([id], connection) }
      return
    }
    // A client chooses the id of its request, so a request with the form of another id is not found by it.
    let mayBeRequest = !id.isTransactionID && !isOrder && UUID(rfc9562: id) == nil
    let answers = try await connection.pipeline([
      OrderRows.transactions(of: id),
      RefusedAttemptRows.last(mayBeRequest ? Self.maximumRefusals : 0, requestID: id),
    ])
    let transactions = try answers[0].map { try $0.decode("transaction_id", as: String.self) }
    let own = kinds
    for transaction in transactions { try await add(transaction, in: catalog, connection) }
    if !transactions.isEmpty {
      // The transactions found kinds of their own. A client may have given the order's id to a device.
      kinds = own.union([.order])
      try await addTransactions(transactions, connection)
    }
    refusals = try answers[1].map(RefusedAttempt.init)
    guard !refusals.isEmpty else { return }
    for attempt in refusals {
      if let user = attempt.userID, let bundleID = attempt.bundleID {
        add([Match(.user(user), of: bundleID)])
      }
      if let device = attempt.deviceID, let bundleID = attempt.bundleID {
        add([Match(.device(device), of: bundleID)])
      }
      if let transaction = attempt.transactionID { try await add(transaction, in: catalog, connection) }
    }
    kinds = [.request]
  }

  /// No matches.
  init() {}

  /// No matches, and the refused requests that name an id.
  init(refusals: [RefusedAttempt]) { self.refusals = refusals }

  private static let maximumRefusals = 5
  private static let maximumParents = 5

  /// The customers that have exactly this id themselves: a device in this spelling, a user's UUID in any case. The
  /// others are found by what leads to them, such as an order or a paired device.
  /// - Parameter withUnlisted: whether devices count that support does not see, in the apps that have no other such
  ///   customer.
  func customers(named id: String, withUnlisted: Bool = false) -> [Match] {
    let user = UUID(rfc9562: id)
    let device = DeviceID.normalized(id)
    func isNamed(_ match: Match) -> Bool {
      match.customer.userID.map { $0 == user } ?? (match.customer.deviceID == device)
    }
    let own = customers.filter(isNamed)
    guard withUnlisted else { return own }
    return own
      + unlisted.filter { match in isNamed(match) && !own.contains { $0.bundleID == match.bundleID } }
  }

  /// Adds the user of a sign-up, whom no record names.
  mutating func add(signUp user: UUID, of apps: [String]) {
    isSignUpAlone = isEmpty
    add(apps.map { Match(.user(user), of: $0) }, as: .user, isKnownOnly: isSignUpAlone)
    profileApps.formUnion(apps)
  }

  /// Whether a record names the customer. A refused request does not: any client can name any id.
  func records(_ match: Match) -> Bool { kinds != [.request] && customers.contains(match) }

  /// Adds customers.
  /// - Parameter isKnownOnly: whether nothing is recorded of the user.
  mutating func add(_ matches: [Match], as kind: FoundKind? = nil, isKnownOnly: Bool = false) {
    if isKnownOnly { self.isKnownOnly = true }
    customers = Set(customers + matches).sorted {
      ($0.bundleID, $0.customer.id) < ($1.bundleID, $1.customer.id)
    }
    if let kind { kinds.insert(kind) }
  }

  private mutating func add(
    _ id: String, in catalog: AppCatalog, _ connection: PostgresConnection
  ) async throws {
    let id = DeviceID.normalized(id)
    // The role `receiptd_support` may not read this table.
    let readsSecrets = try await connection.query(
      "SELECT has_table_privilege('device_secrets', 'SELECT') AS reads")[0].decode("reads", as: Bool.self)
    let answers = try await connection.pipeline([
      Self.purchases(id),
      Self.customers(id, UUID(rfc9562: id), in: catalog, readsSecrets: readsSecrets),
      Self.parents(id, in: catalog),
    ])
    purchases = Set(
      purchases + (try answers[0].map { try $0.decode("original_transaction_id", as: String.self) })
    ).sorted()
    if !answers[0].isEmpty { kinds.insert(.transaction) }
    let words = Set(try answers[1].map { try $0.decode("kind", as: String.self) })
    kinds.formUnion(words.compactMap(FoundKind.init))
    if !words.isDisjoint(with: [Self.knownUser, Self.knownByProfile]) {
      isKnownOnly = kinds.isEmpty
      kinds.insert(.user)
    }
    var own = try answers[0].compactMap { try Match($0) }
    var (traces, recordedApps): ([Match], Set<String>) = ([], [])
    for row in answers[1] {
      guard let match = try Match(row) else { continue }
      switch try row.decode("kind", as: String.self) {
      case FoundKind.childDevice.rawValue: unlisted.append(match)
      case Self.trace: traces.append(match)
      case Self.knownByProfile:
        own.append(match)
        profileApps.insert(match.bundleID)
      default:
        own.append(match)
        recordedApps.insert(match.bundleID)
      }
    }
    profileApps.subtract(recordedApps)
    unlisted += traces
    let parents = try answers[2].compactMap { try Match($0) }
    if own.isEmpty, parents.isEmpty, answers[0].isEmpty {
      add(traces, as: traces.isEmpty ? nil : .device, isKnownOnly: !traces.isEmpty)
    }
    add(own.isEmpty ? parents : own)
    self.parents += parents
    let total = try answers[2].first?.decode("total", as: Int.self) ?? 0
    parentsHidden += total - parents.count
  }

  private mutating func addTransactions(_ ids: [String], _ connection: PostgresConnection) async throws {
    transactions = try await connection.query(NamedTransaction.select(ids)).map(NamedTransaction.init)
  }

  /// The kind of a row that names a user, and nothing that the user has.
  private static let knownUser = "known user"
  /// The same, where the app's own table has the user's row, or a client's claim of it.
  private static let knownByProfile = "known by profile"
  /// The kind of a row that names a device and gives it no access.
  private static let trace = "trace"

  private static func purchases(_ id: String) -> Query {
    """
    SELECT original_transaction_id, bundle_id, user_id, device_id FROM subscriptions
    WHERE bundle_id IS NOT NULL AND original_transaction_id IN (
      SELECT \(id) UNION SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id))
    UNION
    SELECT original_transaction_id, bundle_id, NULL, device_id FROM purchase_devices
    WHERE NOT is_barred AND original_transaction_id IN (
      SELECT \(id) UNION SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id))
    """
  }

  /// The rows of all tables that name the customer, the app's own tables, clients' events and valid tokens too. A
  /// refused request makes no customer: any client can name any id.
  private static func customers(
    _ id: String, _ user: UUID?, in catalog: AppCatalog, readsSecrets: Bool
  ) -> Query {
    let apps = catalog.apps.map(\.bundleID)
    let userApps = catalog.apps.filter { $0.customer == .user }
    let deviceApps = catalog.apps.filter { $0.customer == .device }.map(\.bundleID)
    let ofSecret: Query =
      readsSecrets
      ? """
      UNION ALL SELECT bundle_id FROM device_secrets WHERE bundle_id = ANY(\(deviceApps)) AND device_id = \(id)
      UNION ALL SELECT bundle_id FROM pairing_codes WHERE device_id = \(id)
      """ : ""
    return """
      SELECT 'user' AS kind, bundle_id, user_id, NULL AS device_id FROM subscriptions
      WHERE user_id = \(user) AND bundle_id IS NOT NULL
      UNION SELECT 'device', bundle_id, NULL, device_id FROM subscriptions
      WHERE device_id = \(id) AND user_id IS NULL AND bundle_id IS NOT NULL
      UNION SELECT 'device', bundle_id, NULL, device_id FROM purchase_devices
      WHERE device_id = \(id) AND NOT is_barred
      UNION SELECT 'user', bundle_id, user_id, NULL FROM grants WHERE user_id = \(user)
      UNION SELECT 'device', bundle_id, NULL, device_id FROM grants WHERE device_id = \(id)
      UNION SELECT 'device', bundle_id, NULL, device_id FROM trials
      WHERE device_id = \(id) AND bundle_id = ANY(\(apps))
      UNION SELECT 'device', bundle_id, NULL, device_id FROM devices
      WHERE device_id = \(id) AND bundle_id = ANY(\(apps))
      UNION SELECT 'device', bundle_id, NULL, \(id)::text FROM devices
      WHERE former_parents <> '{}' AND former_parents @> ARRAY[\(id)::text] AND bundle_id = ANY(\(apps))
      UNION SELECT 'childDevice', app.bundle_id, NULL, \(id)::text FROM unnest(\(apps)::text[]) AS app (bundle_id)
      WHERE EXISTS (
        SELECT FROM devices WHERE devices.bundle_id = app.bundle_id AND devices.child_device_id = \(id))
      UNION SELECT 'user', bundle_id, \(user)::uuid, NULL FROM support_actions
      WHERE customer_kind = 'user' AND bundle_id IS NOT NULL
        AND (from_customer = \(user)::uuid::text OR to_customer = \(user)::uuid::text)
      UNION SELECT 'device', bundle_id, NULL, \(id)::text FROM support_actions
      WHERE customer_kind = 'device' AND bundle_id IS NOT NULL
        AND (from_customer = \(id) OR to_customer = \(id))
      UNION SELECT \(knownByProfile)::text, app.bundle_id, \(user)::uuid, NULL
      FROM unnest(\(userApps.filter { $0.writeTo.contains(.profiles) }.map(\.bundleID))::text[]) AS app (bundle_id)
      WHERE EXISTS (SELECT FROM profiles WHERE profiles.id = \(user)::uuid)
        OR EXISTS (SELECT FROM client_writes WHERE user_id = \(user)::uuid AND table_name = 'profiles')
      UNION SELECT \(knownByProfile)::text, app.bundle_id, \(user)::uuid, NULL
      FROM unnest(\(userApps.filter { $0.writeTo.contains(.userPreferences) }.map(\.bundleID))::text[])
        AS app (bundle_id)
      WHERE EXISTS (SELECT FROM user_preferences WHERE user_preferences.user_id = \(user)::uuid)
        OR EXISTS (SELECT FROM client_writes WHERE user_id = \(user)::uuid AND table_name = 'user_preferences')
      UNION SELECT \(knownUser)::text, bundle_id, user_id, NULL FROM seen_users
      WHERE user_id = \(user) AND bundle_id = ANY(\(userApps.map(\.bundleID)))
      UNION SELECT \(knownUser)::text, app.bundle_id, \(user)::uuid, NULL
      FROM unnest(\(userApps.map(\.bundleID))::text[]) AS app (bundle_id) CROSS JOIN LATERAL (
        \(anyEvent("\(user)::uuid::text"))) AS event
      UNION SELECT 'device', app.bundle_id, NULL, \(id)::text
      FROM unnest(\(deviceApps)::text[]) AS app (bundle_id) CROSS JOIN LATERAL (
        \(anyEvent("\(id)"))) AS event
      UNION SELECT \(knownUser)::text, bundle_id, \(user)::uuid, NULL FROM (
        \(traces(of: "\(user)::uuid::text", in: userApps.map(\.bundleID)))) AS trace
      UNION SELECT \(trace)::text, bundle_id, NULL, \(id)::text FROM (
        \(traces(of: "\(id)", in: deviceApps))
        \(ofSecret)
        UNION ALL SELECT bundle_id FROM lifecycle_events WHERE former_device_id = \(id)
        UNION ALL SELECT bundle_id FROM lifecycle_events WHERE child_device_ids ? \(id)
        UNION ALL SELECT bundle_id FROM purchase_devices WHERE device_id = \(id)
        UNION ALL SELECT bundle_id FROM trials WHERE displaced_device_id = \(id)
        UNION ALL SELECT bundle_id FROM trials WHERE next_displaced_device_id = \(id)
        UNION ALL SELECT bundle_id FROM purchase_devices WHERE displaced_device_id = \(id)
        UNION ALL SELECT bundle_id FROM purchase_devices WHERE next_displaced_device_id = \(id)) AS trace
      WHERE bundle_id = ANY(\(deviceApps))
      """
  }

  /// The apps of rows that name a customer of either kind and say nothing of access.
  private static func traces(of customer: Query, in apps: [String]) -> Query {
    """
    SELECT bundle_id FROM consents WHERE bundle_id = ANY(\(apps)) AND customer = \(customer)
    UNION ALL SELECT bundle_id FROM adoptions WHERE bundle_id = ANY(\(apps)) AND customer = \(customer)
    UNION ALL SELECT bundle_id FROM lifecycle_events
    WHERE coalesce(user_id::text, device_id) = \(customer) AND bundle_id = ANY(\(apps))
    UNION ALL SELECT bundle_id FROM outbox
    WHERE key = \(customer) AND bundle_id = ANY(\(apps)) AND destination NOT IN ('profiles', 'event', 'notification')
      AND (NOT payload ? 'erased' OR payload ? 'returned')
    """
  }

  /// A row if an app has an event of a customer. The order makes PostgreSQL use the primary key. With EXISTS it would
  /// read the whole table where most events have the customer's id in another app.
  private static func anyEvent(_ customer: Query) -> Query {
    """
    SELECT FROM events WHERE events.bundle_id = app.bundle_id AND events.customer_id = \(customer)
    ORDER BY events.id LIMIT 1
    """
  }

  /// The customers with a paired device of this id, and the number of all.
  private static func parents(_ id: String, in catalog: AppCatalog) -> Query {
    """
    SELECT bundle_id, NULL::uuid AS user_id, device_id, count(*) OVER () AS total FROM devices
    WHERE child_device_id = \(id) AND bundle_id = ANY(\(catalog.apps.map(\.bundleID)))
    ORDER BY paired_at, id LIMIT \(maximumParents)
    """
  }
}
