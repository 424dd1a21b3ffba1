import Customers
import Ledger
import Postgres

extension CustomerTable {
  /// Purchases and their facts: money and dates stay, and nothing leads from them to the customer. The first rule reads
  /// the tokens that the second one removes. A purchase that another customer has loses the erased tokens alone: its
  /// facts and notifications are of that customer, and decide about that customer's access.
  static let purchaseTables = [subscriptions, transactions, renewals, notifications, purchaseDevices, orders]

  private static let subscriptions = CustomerTable(
    "subscriptions", "without an owner, account or token; money and dates stay",
    columns: """
      id device_id original_transaction_id transaction_id product_id tier status purchase_date expiry_date \
      auto_renew_enabled last_validated_at created_at updated_at bundle_id environment user_id store_status \
      status_since ownership grace_expires_at revoked_at price_milliunits currency signed_at kind renews_as \
      upcoming_product_id upcoming_tier owned_because taken_from app_account_token app_transaction_id is_counted \
      phase_starts phase_statuses phase_store_statuses next_change_at store_asked_at \
      old_proof_signed_at old_proof_marked_at old_proof_due_at old_proof_asked_at old_proof_unknown_at \
      erased_as erased_at erased_tokens counted_moves counted_moves_since counted_unproven_moves \
      counted_unproven_moves_since
      """,
    export: { customer in
      """
      SELECT to_jsonb(s) - '{erased_as,erased_at,erased_tokens}'::text[] || CASE WHEN taken_from IS NULL THEN '{}'::jsonb
        ELSE '{"taken_from": "another customer"}' END AS row
      FROM subscriptions s WHERE original_transaction_id = ANY(\(customer.purchases))
      """
    },
    erase: { customer in
      // Another device that shares the purchase becomes its owner.
      [
        """
        UPDATE subscriptions s SET user_id = NULL, device_id = heir.device_id,
          owned_because = CASE WHEN heir.device_id IS NOT NULL THEN 'first_claim' END,
          taken_from = NULL, app_account_token = NULL,
          erased_as = \(customer.pseudonym), erased_at = \(customer.instant),
          erased_tokens = \(tokens(of: customer))
        FROM (SELECT original_transaction_id AS id, (
          SELECT d.device_id \(customer.heirs(of: "owned.original_transaction_id"))
          ORDER BY d.since, d.device_id LIMIT 1) AS device_id
          FROM subscriptions owned WHERE original_transaction_id = ANY(\(customer.purchases))) AS heir
        WHERE s.original_transaction_id = heir.id
        """,
        """
        UPDATE subscriptions s SET app_account_token = \(withoutUser(customer)), erased_tokens = \(tokens(of: customer, only: true))
        WHERE original_transaction_id = ANY(\(customer.formerPurchases))
        """,
        """
        UPDATE subscriptions SET taken_from = \(customer.pseudonym)
        WHERE original_transaction_id = ANY(\(customer.formerPurchases + customer.lostPurchases))
          AND taken_from = \(customer.id) AND \(customer.isOfAppAndKind)
        """,
        keepOut(customer),
      ]
    })

  /// Keeps the user out of the purchases of which waiting notifications alone name the user: neither these nor later
  /// ones bring the user back.
  static func keepOut(_ customer: ErasedCustomer) -> Query {
    """
    INSERT INTO subscriptions (original_transaction_id, auto_renew_enabled, last_validated_at, erased_as, erased_at, erased_tokens)
    SELECT id, NULL, NULL, \(customer.pseudonym), \(customer.instant),
      ARRAY[encode(sha256(convert_to(\(customer.user)::uuid::text, 'UTF8')), 'hex')]
    FROM unnest(\(customer.newWaitingPurchases)::text[]) AS id WHERE \(customer.user)::uuid IS NOT NULL
    ORDER BY id
    ON CONFLICT (original_transaction_id) DO UPDATE SET erased_tokens = ARRAY(
      SELECT unnest(subscriptions.erased_tokens) UNION SELECT unnest(excluded.erased_tokens))
    """
  }

  /// The digests of the tokens of a row of `subscriptions` under the alias `s`; NULL for none. Those of other users name no
  /// owner for what was bought before the erasure, and count for what they buy later.
  /// - Parameter only: whether the customer's own id counts alone, because another customer has the purchase.
  private static func tokens(of customer: ErasedCustomer, only: Bool = false) -> Query {
    """
    nullif(ARRAY(
      SELECT unnest(s.erased_tokens)
      UNION SELECT CASE WHEN token <> \(customer.user)::uuid THEN \(PurchaseErasure.beforeErasure) ELSE '' END
        || encode(sha256(convert_to(token::text, 'UTF8')), 'hex') FROM (
        SELECT s.app_account_token AS token WHERE NOT \(only)
        UNION SELECT t.app_account_token FROM transactions t
          WHERE t.original_transaction_id = s.original_transaction_id AND NOT \(only)
        UNION SELECT \(customer.user)::uuid) AS tokens WHERE token IS NOT NULL), '{}')
    """
  }

  /// The token of a purchase that another customer has: the pseudonym's UUID replaces the erased user's. No customer has
  /// this UUID. The date of the token's signature stays, so an earlier signature with another token changes no owner.
  /// What Apple signs with the erased token later is stored without a token (``PurchaseErasure/stripped(_:)``).
  private static func withoutUser(_ customer: ErasedCustomer) -> Query {
    """
    CASE WHEN app_account_token = \(customer.user)::uuid THEN right(\(customer.pseudonym), 36)::uuid
      ELSE app_account_token END
    """
  }

  private static let transactions = CustomerTable(
    "transactions", "without account, token and order line; prices and dates stay",
    columns: """
      transaction_id original_transaction_id bundle_id environment product_id kind ownership purchase_date \
      original_purchase_date expiry_date revoked_at latest_revocation is_upgraded app_account_token app_account_token_signed_at app_account_token_changed \
      app_transaction_id price_milliunits currency signed_at other_claims first_seen_at updated_at
      """,
    export: { customer in
      """
      SELECT to_jsonb(t) AS row FROM transactions t
      WHERE original_transaction_id = ANY(\(customer.purchases)) ORDER BY purchase_date
      """
    },
    erase: { customer in
      // The account follows when it is certain that no other customer has it.
      [
        """
        UPDATE transactions SET
          other_claims = CASE WHEN original_transaction_id = ANY(\(customer.reducedPurchases))
            THEN receiptd_impersonal_claims(other_claims::text) ELSE other_claims END,
          app_account_token = CASE WHEN original_transaction_id = ANY(\(customer.purchases)) THEN NULL
            ELSE \(withoutUser(customer)) END,
          app_account_token_signed_at = CASE WHEN original_transaction_id <> ALL(\(customer.purchases))
            THEN app_account_token_signed_at END,
          app_account_token_changed = app_account_token_changed AND original_transaction_id <> ALL(\(customer.purchases))
        WHERE original_transaction_id = ANY(\(customer.namedPurchases))
        """
      ]
    })

  private static let renewals = CustomerTable(
    "renewals", "without account and token",
    columns: """
      original_transaction_id environment product_id renews_as will_auto_renew is_in_billing_retry grace_expires_at \
      expiration_intent renewal_date signed_at other_claims updated_at
      """,
    export: { customer in
      "SELECT to_jsonb(r) AS row FROM renewals r WHERE original_transaction_id = ANY(\(customer.purchases))"
    },
    erase: { customer in
      [
        ImpersonalFacts.renewals(customer.reducedPurchases),
        ImpersonalFacts.renewalsWithoutTokens(customer.othersPurchases.sorted()),
      ]
    })

  private static let notifications = CustomerTable(
    // A changed payload has no valid signature, so notifications of other customers' purchases stay whole.
    "notifications", "only type, dates and money; the signed payload goes",
    columns: """
      notification_uuid type subtype bundle_id environment original_transaction_id source signed_at received_at \
      processed_at replayed_at outcome failure failure_detail envelope_header envelope_claims envelope_signature \
      transaction_header transaction_claims transaction_signature renewal_header renewal_claims renewal_signature
      """,
    export: { customer in
      """
      SELECT jsonb_build_object('notification_uuid', notification_uuid, 'type', type, 'subtype', subtype,
        'bundle_id', bundle_id, 'original_transaction_id', original_transaction_id, 'signed_at', signed_at,
        'received_at', received_at, 'outcome', outcome, 'transaction_claims', transaction_claims,
        'renewal_claims', renewal_claims,
        'envelope_claims', CASE WHEN transaction_claims IS NULL AND renewal_claims IS NULL
          THEN envelope_claims END) AS row
      FROM notifications
      WHERE original_transaction_id = ANY(\(customer.purchases))
        OR notification_uuid = ANY(\(customer.endedNotifications))
      ORDER BY signed_at
      """
    },
    erase: { customer in
      let reduced = customer.reducedPurchases
      return [
        ImpersonalFacts.notifications(
          reduced.filter { !customer.sharedPurchases.contains($0) }, true, at: customer.instant),
        ImpersonalFacts.notifications(
          reduced.filter { customer.sharedPurchases.contains($0) }, false, at: customer.instant),
        ImpersonalFacts.waitingNotifications(customer.endedNotifications, at: customer.instant),
      ]
    })

  private static let purchaseDevices = CustomerTable(
    "purchase_devices", "deleted",
    columns: """
      original_transaction_id device_id bundle_id since proved_at is_barred is_proven displaced_device_id displaced_at \
      next_displaced_device_id next_displaced_at
      """,
    export: { customer in
      """
      SELECT \(customer.withoutDisplaced("d")) AS row FROM purchase_devices d
      WHERE device_id = \(customer.device) AND \(customer.isOfApp())
      UNION ALL \(customer.lostPlaces(in: "purchase_devices"))
      """
    },
    erase: { ["DELETE FROM purchase_devices WHERE device_id = \($0.device) AND \($0.isOfApp())"] },
    eraseFromOthers: { $0.forgetDisplaced(in: "purchase_devices") })

  private static let orders = CustomerTable(
    "store_orders", "deleted",
    columns: "order_id transaction_id original_transaction_id bundle_id environment looked_up_at",
    export: { customer in
      """
      SELECT to_jsonb(o) AS row FROM store_orders o
      WHERE original_transaction_id = ANY(\(customer.purchases)) ORDER BY order_id
      """
    },
    erase: { ["DELETE FROM store_orders WHERE original_transaction_id = ANY(\($0.releasedPurchases))"] })
}
