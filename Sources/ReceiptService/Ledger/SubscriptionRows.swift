import FoundationEssentials
import Identifiers
import Postgres
import Subscriptions

/// The table `subscriptions`.
enum SubscriptionRows {
  /// These purchases.
  static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT \(unescaped: columns) FROM subscriptions
    WHERE original_transaction_id = ANY(\(originalTransactionIDs)) AND bundle_id IS NOT NULL
    """
  }

  /// Everything that these customers have, of all apps. In what another device shares with one of them, the last
  /// column is that one; see ``sharer(_:)``.
  /// - Parameters:
  ///   - known: purchases that need not be read.
  ///   - sharing: whether what is shared with them is wanted.
  static func select(
    users: [UUID], devices: [String], except known: [String] = [], sharing: Bool = true
  ) -> Query {
    // A scan by index for each way to have one, where one OR over the columns would read the table; and none for a way
    // that nobody goes, since the server gets each ready anew.
    var ways: [Query] = []
    if !users.isEmpty || devices.isEmpty {
      ways.append(
        """
        SELECT \(unescaped: columns), NULL::text FROM subscriptions
        WHERE user_id = ANY(\(users)) AND bundle_id IS NOT NULL
          AND original_transaction_id <> ALL(\(known))
        """)
    }
    if !devices.isEmpty {
      ways.append(
        """
        SELECT \(unescaped: columns), NULL::text FROM subscriptions
        WHERE device_id = ANY(\(devices)) AND user_id IS NULL AND bundle_id IS NOT NULL
          AND original_transaction_id <> ALL(\(known))
        """)
    }
    if !devices.isEmpty && sharing {
      ways.append(
        """
        SELECT \(unescaped: columns), sharer FROM subscriptions
        JOIN (
          SELECT original_transaction_id AS shared, device_id AS sharer FROM purchase_devices
          WHERE device_id = ANY(\(devices)) AND NOT is_barred
            AND original_transaction_id <> ALL(\(known))
        ) AS sharing ON shared = original_transaction_id
        WHERE device_id IS DISTINCT FROM sharer AND bundle_id IS NOT NULL
        """)
    }
    return .union(all: ways)
  }

  /// The device that has a purchase beside its owner, in a row of ``select(users:devices:)``.
  static func sharer(_ row: Row) throws -> Customer? {
    try row.decode(29, as: String?.self).map(Customer.device)
  }

  private static let columns: StaticString = """
    original_transaction_id, transaction_id, bundle_id, environment, product_id, tier, kind, ownership,
    purchase_date, expiry_date, revoked_at, grace_expires_at, auto_renew_enabled, renews_as,
    price_milliunits, currency, signed_at, app_transaction_id, user_id, device_id, owned_because,
    app_account_token, phase_starts, phase_statuses, phase_store_statuses, is_counted,
    upcoming_product_id, upcoming_tier, taken_from
    """

  /// Writes what the facts mean, with the statuses as of `instant`.
  /// - Parameter validated: whether a client proved it just now, for each.
  static func upsert(_ stored: [StoredSubscription], validated: [Bool], at instant: Date) -> Query {
    let subscriptions = stored.map(\.subscription)
    let phases = subscriptions.map { $0.phase(at: instant) }
    // The phases of all of them in one array, of which each has a part: `unnest` would take arrays of arrays apart.
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
        upcoming_tier, taken_from, status_since, last_validated_at, created_at, updated_at)
      SELECT original_transaction_id, transaction_id, bundle_id, environment,
        product_id, tier, kind, ownership, purchase_date, expiry_date, revoked_at, grace_expires_at,
        auto_renew_enabled, renews_as, price_milliunits, currency, signed_at, app_transaction_id,
        user_id, device_id, owned_because, app_account_token, is_counted, status, store_status,
        (\(all.map { $0.startsAt })::timestamptz[])[first_phase:last_phase],
        (\(all.map { $0.status.rawValue })::text[])[first_phase:last_phase],
        (\(all.map { $0.storeStatus.rawValue })::text[])[first_phase:last_phase],
        next_change_at, upcoming_product_id, upcoming_tier, taken_from, status_since,
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
        \(each: subscriptions.map { $0.lastChange(until: instant) }),
        \(each: validated)))
      AS new (original_transaction_id, transaction_id, bundle_id, environment,
        product_id, tier, kind, ownership, purchase_date, expiry_date, revoked_at, grace_expires_at,
        auto_renew_enabled, renews_as, price_milliunits, currency, signed_at, app_transaction_id,
        user_id, device_id, owned_because, app_account_token, is_counted, status, store_status,
        first_phase, last_phase, next_change_at, upcoming_product_id, upcoming_tier, taken_from,
        status_since, is_validated)
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
        taken_from = excluded.taken_from, status_since = excluded.status_since,
        last_validated_at = coalesce(excluded.last_validated_at, subscriptions.last_validated_at),
        updated_at = excluded.updated_at
      """
  }

  static func decode(_ row: Row) throws -> StoredSubscription {
    let current = TransactionFact(
      transactionID: try row.decode(1), originalTransactionID: try row.decode(0),
      bundleID: try row.decode(2), environment: try environment(row.decode(3)),
      productID: try row.decode(4), kind: PurchaseKind(rawValue: try row.decode(6)),
      ownership: try row.decode(7), purchaseDate: try row.decode(8), expiresDate: try row.decode(9),
      revocationDate: try row.decode(10), appAccountToken: try row.decode(21),
      appTransactionID: try row.decode(17), priceMilliunits: try row.decode(14),
      currency: try row.decode(15), signedAt: try row.decode(16))
    let token: UUID? = try row.decode(21)
    let open = Preceding(productID: try row.decode(4), tier: try row.decode(5))
    let upcoming: String? = try row.decode(26)
    return StoredSubscription(
      subscription: Subscription(
        current: current, productID: upcoming ?? open.productID,
        tier: upcoming == nil ? open.tier : try row.decode(27),
        preceding: upcoming == nil ? nil : open, customerToken: token, autoRenewEnabled: try row.decode(12),
        renewsAs: try row.decode(13),
        graceExpiresDate: try row.decode(11), phases: try phases(row), signedAt: try row.decode(16)),
      owner: try owner(row, token: token),
      decidedToken: token,
      isCounted: try row.decode(25))
  }

  private static func phases(_ row: Row) throws -> [Phase] {
    let starts: [Date?] = try row.decode(22)
    let statuses: [String] = try row.decode(23)
    let storeStatuses: [String] = try row.decode(24)
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
    let user: UUID? = try row.decode(18)
    let device: String? = try row.decode(19)
    guard let customer = user.map(Customer.user) ?? device.map(Customer.device) else { return nil }
    let reason: Ownership.Reason =
      switch try row.decode(20, as: String?.self) {
      case "app_account_token": token.map { .appAccountToken($0) } ?? .firstClaim
      case "transfer": .transfer
      case "support": .support(takenFrom: try takenFrom(row, kind: customer))
      default: .firstClaim
      }
    return Ownership(customer: customer, reason: reason)
  }

  /// The owner before, who is of the same kind as the one now.
  private static func takenFrom(_ row: Row, kind owner: Customer) throws -> Customer? {
    guard let id = try row.decode(28, as: String?.self) else { return nil }
    return switch owner {
    case .user: UUID(rfc9562: id).map(Customer.user)
    case .device: .device(id)
    }
  }
}

extension Ownership.Reason {
  /// The word in the column `owned_because`.
  var word: String {
    switch self {
    case .appAccountToken: "app_account_token"
    case .firstClaim: "first_claim"
    case .transfer: "transfer"
    case .support: "support"
    }
  }

  /// Whom support took it from.
  fileprivate var takenFrom: Customer? {
    if case .support(let previous) = self { previous } else { nil }
  }
}
