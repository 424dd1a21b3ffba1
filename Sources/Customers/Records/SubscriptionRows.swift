import Crypto
import Foundation
import Identifiers
import Postgres
import Subscriptions

/// A subscription with the other columns of its row.
package struct StoredSubscription: Sendable {
  package var subscription: Subscription
  package var owner: Ownership?
  /// The last `appAccountToken` that decided the owner.
  package var decidedToken: UUID?
  /// Whether it grants anything: the catalog has its product, and a sandbox purchase is a tester's.
  package var isCounted: Bool
  /// The devices that share it, and those that are barred from it, in apps that share purchases.
  package var holders: [Holder] = []
  /// The customers of this purchase that were erased; `nil` for none.
  package var erasure: PurchaseErasure?
  /// Its recent moves by the app's rules to customers with a proof; `nil` for none.
  package var moves: MoveCount?
  /// Those to customers who only named the transaction's id. They have a count of their own, so that an id, which
  /// proves no possession, uses up no move of a proof.
  package var unprovenMoves: MoveCount?
  /// Whether it is known by an old proof alone, about which the App Store has not answered; also for a device that shares
  /// it and only named its id.
  package var isUnconfirmed = false

  package init(
    subscription: Subscription, owner: Ownership? = nil, decidedToken: UUID? = nil, isCounted: Bool,
    holders: [Holder] = [], erasure: PurchaseErasure? = nil, moves: MoveCount? = nil,
    unprovenMoves: MoveCount? = nil, isUnconfirmed: Bool = false
  ) {
    self.subscription = subscription
    self.owner = owner
    self.decidedToken = decidedToken
    self.isCounted = isCounted
    self.holders = holders
    self.erasure = erasure
    self.moves = moves
    self.unprovenMoves = unprovenMoves
    self.isUnconfirmed = isUnconfirmed
  }

  /// The purchase as the rules of entitlements take it for a customer. One that the customer only named is unconfirmed.
  package func asRecord(for customer: Customer?) -> Subscription {
    var record = subscription
    let isNamed =
      customer == owner?.customer
      ? owner?.reason == .unprovenClaim
      : holders.contains { Customer.device($0.deviceID) == customer && !$0.isProven }
    record.isUnconfirmed = isUnconfirmed || isNamed
    return record
  }

  /// The customers who have it: the owner, and the devices that share it.
  package var customers: Set<Customer> {
    var customers = Set(holders.lazy.filter { !$0.isBarred }.map { Customer.device($0.deviceID) })
    if let owner { customers.insert(owner.customer) }
    return customers
  }

  package var originalTransactionID: String { subscription.current.originalTransactionID }
  package var bundleID: String { subscription.current.bundleID }
}

/// The table `subscriptions`.
package enum SubscriptionRows {
  /// The rows of these purchases.
  package static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT \(unescaped: columns) FROM subscriptions
    WHERE original_transaction_id = ANY(\(originalTransactionIDs)) AND bundle_id IS NOT NULL
    """
  }

  /// The purchases that these Apple Accounts (`appTransactionId`) have in an app.
  package static func select(ofAccounts accounts: [String], bundleID: String) -> Query {
    """
    SELECT \(unescaped: columns) FROM subscriptions
    WHERE app_transaction_id = ANY(\(accounts)) AND bundle_id = \(bundleID)
    ORDER BY purchase_date DESC LIMIT 50
    """
  }

  /// The purchases of ``select(_:)``, with rows without facts, for which ``formerDevice(_:)`` is not nil: those from
  /// before receiptd, and those that only record an erasure.
  package static func selectWithFormer(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT \(unescaped: columns),
      CASE WHEN bundle_id IS NULL THEN coalesce(device_id, '') END AS former_device,
      CASE WHEN old_proof_due_at IS NOT NULL AND old_proof_asked_at IS NULL THEN old_proof_signed_at END
        AS unconfirmed_proof FROM subscriptions
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    """
  }

  /// The device in a row that no fact has reached yet: empty if it names none. An app's former server wrote the row, or
  /// it only records an erasure. It has no app and no phases, so ``decode(_:)`` cannot read it.
  ///
  /// - Returns: `nil` for a row with facts.
  package static func formerDevice(_ row: Row) throws -> String? { try row.decode("former_device") }

  /// All purchases of these customers, of all apps. In a purchase that another device shares with one of them, the
  /// columns `sharer` and `is_proven` are of that one; see ``sharer(_:)``.
  ///
  /// - Parameters:
  ///   - known: purchases that need not be read.
  ///   - sharing: whether to read the purchases that are shared with them.
  package static func select(
    users: [UUID], devices: [String], except known: [String] = [], sharing: Bool = true
  ) -> Query {
    // One index scan for each kind of customer: a single OR over the columns would read the whole table.
    var ways: [Query] = []
    if !users.isEmpty || devices.isEmpty {
      ways.append(
        """
        SELECT \(unescaped: columns), NULL::text AS sharer, NULL::boolean AS is_proven FROM subscriptions
        WHERE user_id = ANY(\(users)) AND bundle_id IS NOT NULL
          AND original_transaction_id <> ALL(\(known))
        """)
    }
    if !devices.isEmpty {
      ways.append(
        """
        SELECT \(unescaped: columns), NULL::text AS sharer, NULL::boolean AS is_proven FROM subscriptions
        WHERE device_id = ANY(\(devices)) AND user_id IS NULL AND bundle_id IS NOT NULL
          AND original_transaction_id <> ALL(\(known))
        """)
    }
    if !devices.isEmpty && sharing {
      ways.append(
        """
        SELECT \(unescaped: columns), sharer, is_proven FROM subscriptions
        JOIN (
          SELECT original_transaction_id AS shared, device_id AS sharer, is_proven FROM purchase_devices
          WHERE device_id = ANY(\(devices)) AND NOT is_barred
            AND original_transaction_id <> ALL(\(known))
        ) AS sharing ON shared = original_transaction_id
        WHERE device_id IS DISTINCT FROM sharer AND bundle_id IS NOT NULL
        """)
    }
    return .union(all: ways)
  }

  /// The device that shares a purchase with its owner, in a row of ``select(users:devices:except:sharing:)``, and whether
  /// it proved the purchase.
  static func sharer(_ row: Row) throws -> (customer: Customer, isProven: Bool)? {
    guard let device: String = try row.decode("sharer", as: String?.self) else { return nil }
    return (.device(device), try row.decode("is_proven"))
  }

  private static let columns: StaticString = """
    original_transaction_id, transaction_id, bundle_id, environment, product_id, tier, kind, ownership,
    purchase_date, expiry_date, revoked_at, grace_expires_at, auto_renew_enabled, renews_as,
    price_milliunits, currency, signed_at, app_transaction_id, user_id, device_id, owned_because,
    app_account_token, phase_starts, phase_statuses, phase_store_statuses, is_counted,
    upcoming_product_id, upcoming_tier, taken_from, erased_at, erased_tokens, counted_moves, counted_moves_since,
    counted_unproven_moves, counted_unproven_moves_since,
    old_proof_due_at IS NOT NULL AND old_proof_asked_at IS NULL OR old_proof_unknown_at IS NOT NULL AS is_unconfirmed
    """

  /// Writes subscriptions with their statuses at `instant`. The columns of an erasure stay as they are.
  ///
  /// - Parameter validated: for each, whether a client has just proved it.
  package static func upsert(_ stored: [StoredSubscription], validated: [Bool], at instant: Date) -> Query {
    let subscriptions = stored.map(\.subscription)
    let phases = subscriptions.map { $0.phase(at: instant) }
    // One array has the phases of all subscriptions, and each row a slice of it: `unnest` would flatten nested arrays.
    let all = subscriptions.flatMap(\.phases)
    let ends = subscriptions.reduce(into: [Int32]()) { ends, subscription in
      ends.append((ends.last ?? 0) + Int32(subscription.phases.count))
    }
    let starts = zip(ends, subscriptions).map { $0 - Int32($1.phases.count) + 1 }
    return """
      INSERT INTO subscriptions (original_transaction_id, transaction_id, bundle_id, environment,
        product_id, tier, kind, ownership, purchase_date, expiry_date, revoked_at, grace_expires_at,
        auto_renew_enabled, renews_as, price_milliunits, currency, signed_at, app_transaction_id,
        user_id, device_id, owned_because, app_account_token, is_counted, status, store_status,
        phase_starts, phase_statuses, phase_store_statuses, next_change_at, upcoming_product_id,
        upcoming_tier, taken_from, counted_moves, counted_moves_since, counted_unproven_moves,
        counted_unproven_moves_since, status_since, last_validated_at, created_at, updated_at)
      SELECT original_transaction_id, transaction_id, bundle_id, environment,
        product_id, tier, kind, ownership, purchase_date, expiry_date, revoked_at, grace_expires_at,
        auto_renew_enabled, renews_as, price_milliunits, currency, signed_at, app_transaction_id,
        user_id, device_id, owned_because, app_account_token, is_counted, status, store_status,
        (\(all.map { $0.startsAt })::timestamptz[])[first_phase:last_phase],
        (\(all.map { $0.status.rawValue })::text[])[first_phase:last_phase],
        (\(all.map { $0.storeStatus.rawValue })::text[])[first_phase:last_phase],
        next_change_at, upcoming_product_id, upcoming_tier, taken_from, counted_moves, counted_moves_since,
        counted_unproven_moves, counted_unproven_moves_since, status_since,
        CASE WHEN is_validated THEN \(instant)::timestamptz END, \(instant)::timestamptz,
        \(instant)::timestamptz
      FROM \(rows: stored.count)
        \(each: stored.map { $0.originalTransactionID }),
        \(each: subscriptions.map { $0.current.transactionID }),
        \(each: stored.map { $0.bundleID }), \(each: subscriptions.map { $0.current.environment.rawValue }),
        \(each: subscriptions.map { $0.productID(at: instant) }),
        \(each: subscriptions.map { $0.tier(at: instant) }),
        \(each: subscriptions.map { $0.current.kind.rawValue }),
        \(each: subscriptions.map { $0.current.ownership }),
        \(each: subscriptions.map { $0.current.purchaseDate }),
        \(each: subscriptions.map { $0.current.expiresDate }),
        \(each: subscriptions.map { $0.current.revocationDate }),
        \(each: subscriptions.map { $0.graceExpiresDate }),
        \(each: subscriptions.map { $0.autoRenewEnabled }),
        \(each: subscriptions.map { $0.renewsAs }),
        \(each: subscriptions.map { $0.current.priceMilliunits }),
        \(each: subscriptions.map { $0.current.currency }),
        \(each: subscriptions.map { $0.signedAt }),
        \(each: subscriptions.map { $0.current.appTransactionID }),
        \(each: stored.map { $0.owner?.customer.userID }),
        \(each: stored.map { $0.owner?.customer.deviceID }),
        \(each: stored.map { $0.owner?.reason.word }), \(each: stored.map { $0.decidedToken }),
        \(each: stored.map { $0.isCounted }),
        \(each: phases.map { $0.status.rawValue }), \(each: phases.map { $0.storeStatus.rawValue }),
        \(each: starts), \(each: ends),
        \(each: subscriptions.map { $0.nextChange(after: instant) }),
        \(each: subscriptions.map { $0.preceding(at: instant) == nil ? nil : $0.productID }),
        \(each: subscriptions.map { $0.preceding(at: instant) == nil ? nil : $0.tier }),
        \(each: stored.map { $0.owner?.reason.takenFrom?.id }),
        \(each: stored.map { $0.moves.map { Int32(clamping: $0.moves) } }), \(each: stored.map { $0.moves?.since }),
        \(each: stored.map { $0.unprovenMoves.map { Int32(clamping: $0.moves) } }),
        \(each: stored.map { $0.unprovenMoves?.since }),
        \(each: subscriptions.map { $0.lastChange(until: instant) }),
        \(each: validated)))
      AS new (original_transaction_id, transaction_id, bundle_id, environment,
        product_id, tier, kind, ownership, purchase_date, expiry_date, revoked_at, grace_expires_at,
        auto_renew_enabled, renews_as, price_milliunits, currency, signed_at, app_transaction_id,
        user_id, device_id, owned_because, app_account_token, is_counted, status, store_status,
        first_phase, last_phase, next_change_at, upcoming_product_id, upcoming_tier, taken_from, counted_moves,
        counted_moves_since, counted_unproven_moves, counted_unproven_moves_since, status_since, is_validated)
      ON CONFLICT (original_transaction_id) DO UPDATE SET
        transaction_id = excluded.transaction_id, bundle_id = excluded.bundle_id,
        environment = excluded.environment, product_id = excluded.product_id, tier = excluded.tier,
        kind = excluded.kind, ownership = excluded.ownership,
        purchase_date = excluded.purchase_date, expiry_date = excluded.expiry_date,
        revoked_at = excluded.revoked_at, grace_expires_at = excluded.grace_expires_at,
        auto_renew_enabled = excluded.auto_renew_enabled, renews_as = excluded.renews_as,
        price_milliunits = excluded.price_milliunits, currency = excluded.currency,
        signed_at = excluded.signed_at, app_transaction_id = excluded.app_transaction_id,
        user_id = excluded.user_id, device_id = excluded.device_id,
        owned_because = excluded.owned_because, app_account_token = excluded.app_account_token,
        is_counted = excluded.is_counted,
        status = excluded.status, store_status = excluded.store_status,
        phase_starts = excluded.phase_starts, phase_statuses = excluded.phase_statuses,
        phase_store_statuses = excluded.phase_store_statuses,
        next_change_at = excluded.next_change_at,
        upcoming_product_id = excluded.upcoming_product_id, upcoming_tier = excluded.upcoming_tier,
        taken_from = excluded.taken_from, counted_moves = excluded.counted_moves,
        counted_moves_since = excluded.counted_moves_since,
        counted_unproven_moves = excluded.counted_unproven_moves,
        counted_unproven_moves_since = excluded.counted_unproven_moves_since, status_since = excluded.status_since,
        last_validated_at = coalesce(excluded.last_validated_at, subscriptions.last_validated_at),
        updated_at = excluded.updated_at
      """
  }

  package static func decode(_ row: Row) throws -> StoredSubscription {
    let current = TransactionFact(
      transactionID: try row.decode("transaction_id"),
      originalTransactionID: try row.decode("original_transaction_id"),
      bundleID: try row.decode("bundle_id"),
      environment: try StoreEnvironment(stored: row.decode("environment")),
      productID: try row.decode("product_id"), kind: PurchaseKind(rawValue: try row.decode("kind")),
      ownership: try row.decode("ownership"), purchaseDate: try row.decode("purchase_date"),
      expiresDate: try row.decode("expiry_date"),
      revocationDate: try row.decode("revoked_at"), appAccountToken: try row.decode("app_account_token"),
      appTransactionID: try row.decode("app_transaction_id"),
      priceMilliunits: try row.decode("price_milliunits"),
      currency: try row.decode("currency"), signedAt: try row.decode("signed_at"))
    let token: UUID? = try row.decode("app_account_token")
    let open = Preceding(productID: try row.decode("product_id"), tier: try row.decode("tier"))
    let upcoming: String? = try row.decode("upcoming_product_id")
    return StoredSubscription(
      subscription: Subscription(
        current: current, productID: upcoming ?? open.productID,
        tier: upcoming == nil ? open.tier : try row.decode("upcoming_tier"),
        preceding: upcoming == nil ? nil : open, customerToken: token,
        autoRenewEnabled: try row.decode("auto_renew_enabled"),
        renewsAs: try row.decode("renews_as"),
        graceExpiresDate: try row.decode("grace_expires_at"), phases: try phases(row),
        signedAt: try row.decode("signed_at")),
      owner: try owner(row, token: token),
      decidedToken: token,
      isCounted: try row.decode("is_counted"), erasure: try PurchaseErasure(row), moves: try MoveCount(row),
      unprovenMoves: try MoveCount(row, "counted_unproven_moves"),
      isUnconfirmed: try row.decode("is_unconfirmed"))
  }

  private static func phases(_ row: Row) throws -> [Phase] {
    let starts: [Date?] = try row.decode("phase_starts")
    let statuses: [String] = try row.decode("phase_statuses")
    let storeStatuses: [String] = try row.decode("phase_store_statuses")
    guard !starts.isEmpty, starts.count == statuses.count, starts.count == storeStatuses.count else {
      throw UnreadableRow(column: "phase_starts")
    }
    return try zip(starts, zip(statuses, storeStatuses)).map { start, words in
      guard let status = Status(rawValue: words.0), let store = StoreStatus(rawValue: words.1) else {
        throw UnreadableRow(column: "phase_statuses")
      }
      return Phase(startsAt: start, status: status, storeStatus: store)
    }
  }

  private static func owner(_ row: Row, token: UUID?) throws -> Ownership? {
    let user: UUID? = try row.decode("user_id")
    let device: String? = try row.decode("device_id")
    guard let customer = user.map(Customer.user) ?? device.map(Customer.device) else { return nil }
    let reason: Ownership.Reason =
      switch try row.decode("owned_because", as: String?.self) {
      case "app_account_token": token.map { .appAccountToken($0) } ?? .firstClaim
      case "unproven_claim": .unprovenClaim
      case "transfer": .transfer
      case "support": .support(takenFrom: try takenFrom(row, kind: customer))
      default: .firstClaim
      }
    return Ownership(customer: customer, reason: reason)
  }

  /// The owner before, of the same kind as the present one.
  private static func takenFrom(_ row: Row, kind owner: Customer) throws -> Customer? {
    guard let id = try row.decode("taken_from", as: String?.self) else { return nil }
    return switch owner {
    case .user: UUID(rfc9562: id).map(Customer.user)
    case .device: .device(id)
    }
  }
}

extension Ownership.Reason {
  /// The word in the column `owned_because`.
  package var word: String {
    switch self {
    case .appAccountToken: "app_account_token"
    case .firstClaim: "first_claim"
    case .unprovenClaim: "unproven_claim"
    case .transfer: "transfer"
    case .support: "support"
    }
  }

  /// The customer from whom support took it.
  fileprivate var takenFrom: Customer? {
    if case .support(let previous) = self { previous } else { nil }
  }
}

extension StoredSubscription {
  /// The value that ``SubscriptionRows`` reads back after writing this one at `instant`. A row has fewer columns than
  /// the current transaction, and its product is the one that is open at `instant`.
  ///
  /// So a response right after the write says the same as a later one.
  package func asRow(at instant: Date) -> StoredSubscription {
    var current = subscription.current
    current.productID = subscription.productID(at: instant)
    current.originalPurchaseDate = nil
    current.isUpgraded = false
    current.isFreeOffer = false
    current.appAccountToken = decidedToken
    current.tokenSignedAt = decidedToken == nil ? nil : subscription.signedAt
    current.signedAt = subscription.signedAt
    var meaning = subscription
    meaning.current = current
    meaning.preceding = subscription.preceding(at: instant)
    meaning.customerToken = decidedToken
    var row = self
    row.subscription = meaning
    return row
  }
}

extension MoveCount {
  /// Decodes the columns of a purchase or a trial that have a count.
  ///
  /// - Parameter column: the one with the number; that of the first move has `_since` at its end.
  /// - Returns: `nil` where it never moved.
  init?(_ row: Row, _ column: String = "counted_moves") throws {
    guard let since = try row.decode("\(column)_since", as: Date?.self) else { return nil }
    self.init(since: since, moves: Int(try row.decode(column, as: Int32.self)))
  }
}

/// What the erasure of a customer means for a purchase that stays: its money counts, and later facts of the App Store
/// must not bring the customer back.
package struct PurchaseErasure: Sendable {
  /// When the customer that owned it was erased; `nil` if only a token of an erased customer was removed from it.
  package var ownerErasedAt: Date?
  /// SHA-256 in hex of each `appAccountToken` that was removed. The App Store goes on signing them. Those of other users
  /// than the erased one have the prefix ``beforeErasure``.
  package var tokenDigests: Set<String>
  /// The prefix of another user's digest: the token gives that user no transaction from before the erasure.
  package static let beforeErasure = "before-erasure:"

  /// - Returns: `nil` for a purchase without an erased customer.
  package init?(_ row: Row) throws {
    ownerErasedAt = try row.decode("erased_at")
    tokenDigests = Set(try row.decode("erased_tokens", as: [String]?.self) ?? [])
    if ownerErasedAt == nil, tokenDigests.isEmpty { return nil }
  }

  /// The digest of a token as SQL makes it, of the UUID in lower case. A token is random, so the digest needs no key.
  package static func digest(of token: UUID) -> String {
    SHA256.hash(data: Data(token.uuidString.lowercased().utf8)).map { String(format: "%02x", $0) }.joined()
  }
}

extension StoreEnvironment {
  /// The environment in a column.
  ///
  /// - Throws: ``UnreadableRow`` for a word that receiptd does not write.
  package init(stored word: String) throws {
    guard let environment = StoreEnvironment(rawValue: word) else {
      throw UnreadableRow(column: "environment")
    }
    self = environment
  }
}
