import AppStore
import Configuration
import Customers
import Foundation
import Identifiers
import Ledger
import Postgres
import Subscriptions

/// A customer that is exported or erased, with the purchases that are the customer's.
struct ErasedCustomer: Sendable {
  let customer: Customer
  /// The apps that know the customer.
  let bundleIDs: [String]
  /// The apps whose rows may name the customer. A user is one person in all apps whose customers are users, and tables
  /// of unproven words may name the user in any. The same id of a device in another app is another device.
  let appIDs: [String]
  /// Whether rows of apps that are not in ``appIDs`` stay, although they have the id.
  let isOfTheseAppsAlone: Bool
  /// The apps whose customers are of the other kind: the same id there is another customer's.
  let otherKindIDs: [String]
  /// The names of the app's own tables whose row of a user is of no other app.
  let profileTables: [String]
  /// The names of those whose row is of one of these apps and of another one.
  let sharedTables: [String]
  /// The names of all to which a configured app writes.
  let servedTables: [String]
  /// Replaces the id: random, so that nothing leads back to the customer. Rows of one customer stay together, and
  /// counts of customers stay as they are.
  let pseudonym: String
  /// The purchases that the customer owns (`originalTransactionId`).
  var purchases: [String] = []
  /// The purchases of other customers whose facts name this one by a former `appAccountToken`.
  var formerPurchases: [String] = []
  /// The purchases of other customers that support took from this one, and whose facts do not name it: only the row's
  /// column `taken_from` does.
  var lostPurchases: [String] = []
  /// The purchases of other customers in which the device has or had a place.
  var heldPurchases: [String] = []
  /// The names of the locks of the Apple Accounts in whose trial the device has or had a place.
  var trialLocks: Set<String> = []
  /// The notifications that could not be processed yet and name the customer or the customer's purchases; none of
  /// ``foreign``.
  var waiting: [Waiting] = []
  /// The notifications that wait and name the customer, of apps that were never configured. Any developer can have the
  /// App Store sign a user's UUID and send it here, so there may be any number.
  var foreign: [UUID] = []
  /// Those of ``namedPurchases`` and ``waitingPurchases`` that another customer has after the erasure. Their facts and
  /// notifications are of that customer: a refund that waits must end that customer's access.
  var othersPurchases: Set<String> = []
  /// Those of ``namedPurchases`` and ``waitingPurchases`` that give another customer access after the erasure:
  /// ``othersPurchases``, and those of a device that has a place without a proof and inherits nothing. A refund that
  /// waits must end that access too.
  var sharedPurchases: Set<String> = []
  /// The purchases that an earlier transaction of this erasure has marked, so that the user's token never owns them
  /// again. Other notifications about them still wait.
  private(set) var keptOut: Set<String> = []
  /// The most events that the transaction of the erasure changes; `nil` for all. A dry run counts the others.
  private(set) var mostEvents: Int?
  let instant: Date

  /// The timeout of a statement: many read whole tables.
  static let timeout: Duration = .seconds(60)

  /// The most waiting notifications that one transaction ends. Each takes up to two places of the table of locks, which
  /// has some thousands for all sessions.
  static let batchSize = 500

  /// The most events that are erased in the transaction of the erasure; if there are more, transactions before it erase
  /// as many each.
  static let eventBatch = 10_000

  /// The most parents whose other children are told that the device was erased.
  static let mostParents = 200

  /// A notification that waits, with its purchase and its app as far as they can be read.
  struct Waiting: Sendable {
    var uuid: UUID
    var purchase: String?
    /// Whether the ledger has read the purchase. Otherwise it stands in a part that does not verify.
    var isPurchaseVerified: Bool
    var bundleID: String?

    init(_ row: Row) throws {
      uuid = try row.decode("notification_uuid")
      purchase = try row.decode("purchase")
      isPurchaseVerified = try row.decode("is_verified")
      bundleID = try row.decode("bundle_id")
    }

    /// The names of the locks under which the ledger may process it: see ``LedgerEntry/lockName``.
    var locks: [String] { [purchase, isPurchaseVerified ? nil : uuid.uuidString].compactMap(\.self) }
  }

  /// - Parameter hasNamesake: whether the id is a customer of other apps too.
  init(
    _ customer: Customer, of bundleIDs: [String], hasNamesake: Bool = false, in catalog: AppCatalog,
    at instant: Date
  ) {
    self.customer = customer
    self.bundleIDs = bundleIDs
    isOfTheseAppsAlone = hasNamesake || customer.kind == .device
    let sameKind = catalog.apps.filter { $0.customer == customer.kind }.map(\.bundleID)
    appIDs = isOfTheseAppsAlone ? bundleIDs : Set(sameKind + bundleIDs).sorted()
    otherKindIDs = catalog.apps.map(\.bundleID).filter { !sameKind.contains($0) && !bundleIDs.contains($0) }
    // An app outside of the list may write to a table too, and then the row is of both.
    let others = catalog.apps.filter {
      hasNamesake && $0.customer == .user && !bundleIDs.contains($0.bundleID)
    }
    func isWritten(_ table: StatusDestination, by apps: [App]) -> Bool {
      apps.contains { $0.writeTo.contains(table) }
    }
    let tables = ProfileTable.all.map(\.destination)
    profileTables = tables.filter { !isWritten($0, by: others) }.map(\.rawValue)
    let own = catalog.apps.filter { bundleIDs.contains($0.bundleID) }
    sharedTables = tables.filter { isWritten($0, by: others) && isWritten($0, by: own) }.map(\.rawValue)
    servedTables = tables.filter { isWritten($0, by: catalog.apps) }.map(\.rawValue)
    self.instant = instant
    // Columns of users take UUIDs alone.
    let random = UUID().uuidString.lowercased()
    pseudonym = customer.userID == nil ? DeviceID.erasedPrefix + random : random
  }

  var id: String { customer.id }

  /// `nil` for a device.
  var user: UUID? { customer.userID }

  /// `nil` for a user.
  var device: String? { customer.deviceID }

  /// A condition: the row is of one of the customer's apps, or of none.
  /// - Parameter bundleID: the column.
  func isOfApp(_ bundleID: StaticString = "bundle_id") -> Query {
    guard isOfTheseAppsAlone else { return "true" }
    return "(\(unescaped: bundleID) IS NULL OR \(unescaped: bundleID) = ANY(\(appIDs)))"
  }

  /// ``isOfApp(_:)`` for a row with a column for ids of users and of devices: in an app for devices, a user's UUID is the id
  /// of a device.
  var isOfAppAndKind: Query {
    "(\(isOfApp()) AND (bundle_id = ANY(\(otherKindIDs))) IS NOT TRUE)"
  }

  /// A condition on `client_writes` under the alias `w`: the user's claim may be of one of these apps. A job gives the
  /// user the purchase of a claim, so one that is not known to be of another app is erased.
  var isOwnClaim: Query {
    """
    (user_id = \(user) AND (table_name = ANY(\(profileTables)) OR table_name = ANY(\(sharedTables))
      AND NOT EXISTS (SELECT FROM subscriptions s
        WHERE s.original_transaction_id = w.original_transaction_id AND NOT \(isOfApp("s.bundle_id")))
      AND NOT EXISTS (SELECT FROM transactions t
        WHERE t.transaction_id = w.original_transaction_id AND NOT \(isOfApp("t.bundle_id")))))
    """
  }

  /// All purchases whose facts name the customer.
  var namedPurchases: [String] { purchases + formerPurchases }

  /// The purchases of which only money and dates stay: no other customer has them.
  var reducedPurchases: [String] { namedPurchases.filter { !othersPurchases.contains($0) } }

  /// The customer's purchases that have no owner after the erasure: no device inherits them.
  var releasedPurchases: [String] { purchases.filter { !othersPurchases.contains($0) } }

  /// The waiting notifications that will not be processed any more: no other customer has access by their purchases.
  var endedNotifications: [UUID] {
    waiting.filter { !isShared($0) }.map(\.uuid)
  }

  /// The waiting notifications that stay as signed: another customer has access by their purchases.
  var keptNotifications: [UUID] { waiting.filter(isShared).map(\.uuid) }

  private func isShared(_ notification: Waiting) -> Bool {
    notification.purchase.map { sharedPurchases.contains($0) } ?? false
  }

  /// The purchases whose waiting notifications name the customer, and whose facts do not.
  var waitingPurchases: [String] {
    Set(waiting.compactMap(\.purchase)).subtracting(namedPurchases).sorted()
  }

  /// The ``waitingPurchases`` that no earlier transaction of this erasure has marked.
  var newWaitingPurchases: [String] { waitingPurchases.filter { !keptOut.contains($0) } }

  /// The names of the locks of all purchases and waiting notifications. A proof of a purchase that another device has
  /// writes the places of all its devices.
  var purchaseLocks: [String] { purchasesOfFacts + waiting.flatMap(\.locks) }

  /// The names of the locks of the customer and of the Apple Accounts.
  var customerLocks: Set<String> { trialLocks.union([customer.lockName]) }

  private var purchasesOfFacts: [String] { namedPurchases + lostPurchases + heldPurchases }

  /// Whether the locks of this customer are those of the customer as it is now, or more.
  func locks(_ current: ErasedCustomer) -> Bool {
    Set(purchasesOfFacts).isSuperset(of: current.purchasesOfFacts)
      && trialLocks.isSuperset(of: current.trialLocks)
  }

  /// The customer with the waiting notifications that the transaction of the erasure ends: those of purchases that it
  /// locks anyway, and a batch of the others.
  func inOneTransaction(isDryRun: Bool) -> ErasedCustomer {
    let parts = waitingParts
    var part = part(parts.ofNamedPurchases + parts.others.prefix(Self.batchSize))
    part.mostEvents = isDryRun ? Self.eventBatch : nil
    return part
  }

  /// The customer with the waiting notifications that transactions before it end, a batch each.
  var batches: [ErasedCustomer] {
    Array(waitingParts.others.dropFirst(Self.batchSize)).chunked(by: Self.batchSize).map(part)
  }

  /// The customer after transactions of the same erasure.
  /// - Parameter keptOut: the purchases that these transactions have marked.
  func after(_ keptOut: Set<String>) -> ErasedCustomer {
    var later = self
    later.keptOut = keptOut
    return later
  }

  private var waitingParts: (ofNamedPurchases: [Waiting], others: [Waiting]) {
    let purchases = Set(namedPurchases)
    func isNamed(_ notification: Waiting) -> Bool {
      notification.purchase.map { purchases.contains($0) } ?? false
    }
    return (waiting.filter(isNamed), waiting.filter { !isNamed($0) })
  }

  private func part(_ waiting: [Waiting]) -> ErasedCustomer {
    var part = self
    (part.waiting, part.foreign) = (waiting, [])
    return part
  }

  /// The Apple Accounts (appTransactionId) of the trials and the purchases.
  var findAccounts: Query {
    """
    SELECT app_transaction_id AS account FROM subscriptions
    WHERE original_transaction_id = ANY(\(purchases)) AND app_transaction_id IS NOT NULL
    UNION SELECT original.app_transaction_id
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    WHERE own.device_id = \(device) AND \(isOfApp("own.bundle_id")) AND original.app_transaction_id IS NOT NULL
    """
  }

  /// A row for each purchase: its id, whether the customer owns it, whether its facts name the customer, and whether
  /// the device alone has or had a place in it. A purchase without an owner is the customer's too if the customer alone
  /// has its Apple Account.
  ///
  /// The scans for tokens have no index: erasing is rare, and an index would cost each webhook.
  var findPurchases: Query {
    """
    SELECT original_transaction_id, true AS is_owned, true AS is_named, false AS is_held FROM subscriptions
    WHERE (user_id = \(user) OR device_id = \(device) AND user_id IS NULL) AND \(isOfApp())
    UNION ALL
    SELECT unclaimed.original_transaction_id, true, true, false
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    JOIN subscriptions unclaimed ON unclaimed.app_transaction_id = original.app_transaction_id
      AND unclaimed.bundle_id = own.bundle_id
    WHERE own.device_id = \(device) AND \(isOfApp("own.bundle_id"))
      AND unclaimed.user_id IS NULL AND unclaimed.device_id IS NULL
      AND NOT EXISTS (
        SELECT FROM trials t WHERE coalesce(t.continues, t.id) = original.id AND t.device_id <> own.device_id
          AND t.device_id !~ \(unescaped: DeviceID.erasedPattern))
      AND NOT EXISTS (
        SELECT FROM subscriptions s WHERE s.app_transaction_id = original.app_transaction_id
          AND s.bundle_id = own.bundle_id AND s.device_id <> own.device_id)
    UNION ALL
    SELECT original_transaction_id, false, false, false FROM subscriptions WHERE taken_from = \(id) AND \(isOfAppAndKind)
    UNION ALL
    SELECT original_transaction_id, false, false, true FROM purchase_devices
    WHERE (device_id = \(device) OR displaced_device_id = \(device) OR next_displaced_device_id = \(device)) AND \(isOfApp())
    UNION ALL
    SELECT original_transaction_id, false, true, false FROM (
      SELECT original_transaction_id FROM subscriptions WHERE app_account_token = \(user) AND \(isOfApp())
      UNION SELECT original_transaction_id FROM transactions WHERE app_account_token = \(user) AND \(isOfApp())
    ) AS named
    ORDER BY 1, 2
    """
  }

  /// The names of the locks of the Apple Accounts in whose trial the device has or had a place (`name`), as when a
  /// trial starts.
  var findTrialLocks: Query {
    """
    SELECT DISTINCT own.bundle_id || '/' || original.app_transaction_id AS name
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    WHERE (own.device_id = \(device) OR own.displaced_device_id = \(device) OR own.next_displaced_device_id = \(device))
      AND \(isOfApp("own.bundle_id")) AND original.app_transaction_id IS NOT NULL
    """
  }

  /// The children's devices of the device, each with its app (`bundle_id`, `child_device_id`).
  var findChildren: Query {
    "SELECT DISTINCT bundle_id, child_device_id FROM devices WHERE device_id = \(device) AND \(isOfApp())"
  }

  /// The parents with whom the device is paired, and the device itself, each with its app (`bundle_id`, `device_id`).
  /// Any client can name any device as its child's, so only the first ``mostParents`` are read; those with whom the
  /// device confirmed the pairing come first.
  var findParents: Query {
    """
    (SELECT bundle_id, device_id FROM devices WHERE child_device_id = \(device) AND \(isOfApp())
     ORDER BY confirmed_at IS NULL, paired_at, id LIMIT \(Self.mostParents))
    UNION SELECT bundle_id, device_id FROM devices WHERE device_id = \(device) AND \(isOfApp())
    """
  }

  /// The number of the customer's states that destinations have, or wait for (`states`).
  var countStates: Query { "SELECT count(*) AS states FROM outbox WHERE \(isOwnState)" }

  /// A condition on `outbox`: the row is a state of the customer, which no erasure has replaced. The key of an event or
  /// a notification is its own id, which a client may have chosen as the id of a device.
  var isOwnState: Query {
    """
    (key = \(id) AND destination NOT IN ('profiles', 'event', 'notification')
      AND (NOT payload ? 'erased' OR payload ? 'returned') AND \(isOfAppAndKind))
    """
  }

  /// The waiting notifications with the customer's token, or about the customer's purchases, in any of their signed
  /// parts. `is_foreign`: the app was never configured, as for retention.
  ///
  /// It reads all that wait, because erasing is rare.
  var findWaiting: Query {
    // The token of a payload is a user's. A device's id is in none: a client may choose another customer's token as its
    // id.
    var names = [user].compactMap { $0?.uuidString.lowercased() }
    let ids = purchases.filter(\.isTransactionID)
    if !ids.isEmpty { names.append(#""(\#(ids.joined(separator: "|")))""#) }
    let pattern = names.isEmpty ? nil : names.joined(separator: "|")
    return """
      SELECT n.notification_uuid, n.bundle_id, n.original_transaction_id IS NOT NULL AS is_verified,
        coalesce(n.original_transaction_id,
          substring(claims.text FROM '"originalTransactionId" *: *"([0-9]{1,20})"')) AS purchase,
        n.outcome = 'unknown_app' AND NOT EXISTS (
          SELECT FROM configured_apps app WHERE app.bundle_id = n.bundle_id) AS is_foreign
      FROM notifications n CROSS JOIN LATERAL (
        SELECT receiptd_readable_claims(
          concat_ws(' ', n.transaction_claims, n.renewal_claims, n.envelope_claims)) AS text) AS claims
      WHERE n.processed_at IS NULL AND \(isOfApp("n.bundle_id")) AND claims.text ~* \(pattern)::text
      """
  }

  /// A row of `purchase_devices` or `trials` as JSON, without the ids of the devices that had the place before.
  /// - Parameter alias: the table's alias.
  func withoutDisplaced(_ alias: StaticString) -> Query {
    """
    to_jsonb(\(unescaped: alias)) || CASE WHEN \(unescaped: alias).displaced_device_id IS NULL THEN '{}'::jsonb
      ELSE '{"displaced_device_id": "another customer"}' END
      || CASE WHEN \(unescaped: alias).next_displaced_device_id IS NULL THEN '{}'::jsonb
      ELSE '{"next_displaced_device_id": "another customer"}' END
    """
  }

  /// The places that the device lost to other devices. The rows name neither the other devices nor the purchase.
  func lostPlaces(in table: StaticString) -> Query {
    """
    SELECT jsonb_build_object('bundle_id', bundle_id, 'device_id', 'another customer', 'displaced_device_id', \(device)::text,
      'displaced_at', CASE WHEN displaced_device_id = \(device) THEN displaced_at ELSE next_displaced_at END) AS row
    FROM \(unescaped: table)
    WHERE (displaced_device_id = \(device) OR next_displaced_device_id = \(device)) AND \(isOfApp())
    """
  }

  /// Removes the device from the places that it lost to other devices.
  func forgetDisplaced(in table: StaticString) -> [Query] {
    [
      """
      UPDATE \(unescaped: table) SET next_displaced_device_id = NULL, next_displaced_at = NULL
      WHERE next_displaced_device_id = \(device) AND \(isOfApp())
      """,
      """
      UPDATE \(unescaped: table) SET displaced_device_id = next_displaced_device_id, displaced_at = next_displaced_at,
        next_displaced_device_id = NULL, next_displaced_at = NULL
      WHERE displaced_device_id = \(device) AND \(isOfApp())
      """,
    ]
  }

  /// The devices that may inherit a purchase: the rest of a statement on `purchase_devices` under the alias `d`.
  /// - Parameter purchase: the column with the purchase's id.
  func heirs(of purchase: StaticString) -> Query {
    "\(sharers(of: purchase)) AND d.is_proven"
  }

  /// The other devices that have a purchase, also without a proof: as ``heirs(of:)``.
  private func sharers(of purchase: StaticString) -> Query {
    """
    FROM purchase_devices d
    WHERE d.original_transaction_id = \(unescaped: purchase) AND NOT d.is_barred AND d.device_id <> \(id)
    """
  }

  /// The rows for ``with(others:)``. Those of ``purchases`` are another customer's (`is_others`) if a device inherits
  /// them. `is_settled`: an erasure has removed the user's token from the purchase, so a notification that waits names
  /// the user no more.
  var findOthersPurchases: Query {
    """
    SELECT * FROM (
      SELECT s.original_transaction_id,
        coalesce(\(user.map { PurchaseErasure.digest(of: $0) }) = ANY(s.erased_tokens), false) AS is_settled,
        CASE WHEN s.original_transaction_id = ANY(\(purchases))
          THEN EXISTS (SELECT \(heirs(of: "s.original_transaction_id")))
          ELSE s.user_id IS NOT NULL OR s.device_id IS NOT NULL END AS is_others,
        EXISTS (SELECT \(sharers(of: "s.original_transaction_id"))) AS is_shared
      FROM subscriptions s
      WHERE s.original_transaction_id = ANY(\(namedPurchases + waitingPurchases))) AS named
    WHERE is_others OR is_shared
    """
  }

  /// For a transaction that holds the advisory locks: ends their `lock_timeout`, because the statements of an erasure
  /// may wait for their rows, and locks the waiting notifications.
  var lockAlone: [Query] { ["SET LOCAL lock_timeout = DEFAULT", lockWaiting] }

  /// Selects and locks the waiting notifications that still wait.
  var lockWaiting: Query {
    """
    SELECT notification_uuid FROM notifications
    WHERE notification_uuid = ANY(\(waiting.map(\.uuid))) AND processed_at IS NULL
    ORDER BY notification_uuid FOR UPDATE
    """
  }

  /// The number of notifications of other customers' purchases that have the user's UUID and stay, as signed.
  /// - Parameter kept: ``keptNotifications`` of earlier batches.
  func countNotificationsOfOthers(and kept: [UUID]) -> Query {
    """
    SELECT count(*) AS notifications FROM notifications n
    WHERE (n.original_transaction_id = ANY(\(othersPurchases.sorted()))
        OR n.notification_uuid = ANY(\(keptNotifications + kept)))
      AND strpos(lower(receiptd_readable_claims(
        concat_ws(' ', n.transaction_claims, n.renewal_claims, n.envelope_claims))), lower(\(user)::uuid::text)) > 0
    """
  }

  /// The customer with the notifications of ``findWaiting``.
  func with(waiting rows: Rows) throws -> ErasedCustomer {
    var found = self
    (found.waiting, found.foreign) = ([], [])
    for row in rows {
      if try row.decode("is_foreign", as: Bool.self) {
        found.foreign.append(try row.decode("notification_uuid"))
      } else {
        found.waiting.append(try Waiting(row))
      }
    }
    return found
  }

  /// The customer with those of the waiting notifications that still wait.
  func with(stillWaiting rows: Rows) throws -> ErasedCustomer {
    let uuids = Set(try rows.map { try $0.decode("notification_uuid", as: UUID.self) })
    var found = self
    found.waiting = waiting.filter { uuids.contains($0.uuid) }
    return found
  }

  /// The customer with ``othersPurchases`` and ``sharedPurchases``, without the waiting notifications that are settled.
  func with(others rows: Rows) throws -> ErasedCustomer {
    var found = self
    var (others, shared, settled): (Set<String>, Set<String>, Set<String>) = ([], [], [])
    for row in rows {
      let id = try row.decode("original_transaction_id", as: String.self)
      shared.insert(id)
      if try row.decode("is_others", as: Bool.self) { others.insert(id) }
      if try row.decode("is_settled", as: Bool.self), !keptOut.contains(id) { settled.insert(id) }
    }
    (found.othersPurchases, found.sharedPurchases) = (others, shared)
    found.waiting = waiting.filter { notification in
      notification.purchase.map { !settled.contains($0) } ?? true
    }
    return found
  }

  /// The customer with the locks of ``findTrialLocks``.
  func with(trialLocks rows: Rows) throws -> ErasedCustomer {
    var found = self
    found.trialLocks = Set(try rows.map { try $0.decode("name", as: String.self) })
    return found
  }

  /// The customer with the purchases of ``findPurchases``.
  func with(_ rows: Rows) throws -> ErasedCustomer {
    var found = self
    var (owned, named, lost, held): (Set<String>, Set<String>, Set<String>, Set<String>) = ([], [], [], [])
    for row in rows {
      let id = try row.decode("original_transaction_id", as: String.self)
      if try row.decode("is_held", as: Bool.self) {
        held.insert(id)
      } else if try row.decode("is_owned", as: Bool.self) {
        owned.insert(id)
      } else if try row.decode("is_named", as: Bool.self) {
        named.insert(id)
      } else {
        lost.insert(id)
      }
    }
    found.purchases = owned.sorted()
    found.formerPurchases = named.subtracting(owned).sorted()
    found.lostPurchases = lost.subtracting(owned).subtracting(named).sorted()
    found.heldPurchases = held.subtracting(owned).subtracting(named).subtracting(lost).sorted()
    return found
  }
}
