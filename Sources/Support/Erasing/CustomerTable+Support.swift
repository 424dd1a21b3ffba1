import Ledger
import Postgres
import Subscriptions

extension CustomerTable {
  /// What support and jobs wrote about a customer.
  static let supportTables = [refusals, storeCalls, extensions, lifecycleEvents, outbox, actions]

  private static let refusals = CustomerTable(
    "refused_attempts", "deleted",
    columns: "id at bundle_id route user_id device_id transaction_id code request_id address_prefix",
    export: { customer in
      """
      SELECT to_jsonb(r) AS row FROM refused_attempts r
      WHERE (user_id = \(customer.user) OR device_id = \(customer.device)) AND \(customer.isOfApp()) ORDER BY at
      """
    },
    erase: { customer in
      [
        // Servers that write refused requests wait for the record of this erasure: see RefusedAttemptRows.insert.
        "LOCK TABLE refused_attempts IN SHARE ROW EXCLUSIVE MODE",
        """
        DELETE FROM refused_attempts
        WHERE (user_id = \(customer.user) OR device_id = \(customer.device)) AND \(customer.isOfApp())
          OR user_id IS NULL AND device_id IS NULL AND transaction_id IN (
            SELECT transaction_id FROM transactions WHERE original_transaction_id = ANY(\(customer.releasedPurchases)))
        """,
      ]
    })

  /// An open question about a refund gets no answer: there is no consent any more. Where a device inherits the
  /// purchase, its consent decides.
  private static let storeCalls = CustomerTable(
    "store_calls", "settled, without user and body",
    columns: """
      id kind key bundle_id environment original_transaction_id transaction_id user_id request_reason asked_at deadline \
      attempts next_attempt_at body preferred_by last_error settled_at outcome
      """,
    export: { customer in
      """
      SELECT to_jsonb(c) || CASE WHEN user_id IS NULL OR user_id = \(customer.user) THEN '{}'::jsonb
        ELSE '{"user_id": "another customer", "body": null}' END AS row
      FROM store_calls c
      WHERE original_transaction_id = ANY(\(customer.purchases)) OR user_id = \(customer.user) AND \(customer.isOfApp())
      ORDER BY asked_at
      """
    },
    erase: { customer in
      [
        """
        UPDATE store_calls SET user_id = CASE WHEN user_id = \(customer.user) THEN NULL ELSE user_id END,
          body = NULL, last_error = NULL,
          outcome = CASE WHEN settled_at IS NOT NULL THEN outcome WHEN body IS NOT NULL THEN 'unknown'
            WHEN kind = 'consumption' THEN 'no_consent' ELSE 'not_needed' END,
          settled_at = coalesce(settled_at, \(customer.instant))
        WHERE original_transaction_id = ANY(\(customer.releasedPurchases))
          OR user_id = \(customer.user) AND \(customer.isOfApp())
        """
      ]
    })

  private static let extensions = CustomerTable(
    "renewal_extensions", "without the reason",
    columns: """
      request_identifier bundle_id environment original_transaction_id product_id storefronts days reason_code by reason \
      requested_at accepted_at next_attempt_at attempts completed_at expires_before effective_at succeeded failed last_error
      """,
    export: { customer in
      """
      SELECT to_jsonb(e) AS row FROM renewal_extensions e
      WHERE original_transaction_id = ANY(\(customer.purchases)) ORDER BY requested_at
      """
    },
    erase: { customer in
      [
        """
        UPDATE renewal_extensions SET reason = '(erased)'
        WHERE original_transaction_id = ANY(\(customer.releasedPurchases))
        """
      ]
    })

  /// The customer's events that wait are not sent any more: they name the customer, or their first sending would. Those
  /// of other customers that name this one as the former customer or as a paired device have the pseudonym, and are
  /// sent. ``LifecycleEventRows/fix`` waits for the rows that are locked here.
  private static let lifecycleEvents = CustomerTable(
    "lifecycle_events", "of the pseudonym; the customer's are not sent",
    columns: """
      id type bundle_id environment user_id device_id former_user_id former_device_id child_device_ids \
      original_transaction_id transaction_id trial_id period_end occurred_at data checks_devices created_at first_sent_at \
      erased_at
      """,
    export: { customer in
      """
      SELECT to_jsonb(e) || CASE WHEN former_user_id IS NULL AND former_device_id IS NULL THEN '{}'::jsonb
        ELSE '{"former_user_id": "another customer", "former_device_id": "another customer"}' END
        || CASE WHEN child_device_ids IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('child_device_ids', (
          SELECT jsonb_agg('another customer'::text) FROM jsonb_array_elements(child_device_ids))) END AS row
      FROM lifecycle_events e
      WHERE (user_id = \(customer.user) OR device_id = \(customer.device)) AND \(customer.isOfApp())
      ORDER BY occurred_at
      """
    },
    erase: { customer in
      let user = customer.user == nil ? nil : customer.pseudonym
      let isOwn: Query = """
        coalesce(user_id = \(customer.user) OR device_id = \(customer.device)
          OR user_id IS NULL AND device_id IS NULL AND first_sent_at IS NULL
            AND original_transaction_id = ANY(\(customer.releasedPurchases)), false)
        """
      // One index scan for each column: an OR over the columns would read the whole table.
      let named: Query = """
        SELECT id FROM lifecycle_events WHERE coalesce(user_id::text, device_id) = \(customer.user)::uuid::text
        UNION SELECT id FROM lifecycle_events WHERE coalesce(user_id::text, device_id) = \(customer.device)
        UNION SELECT id FROM lifecycle_events WHERE original_transaction_id = ANY(\(customer.releasedPurchases))
        UNION SELECT id FROM lifecycle_events WHERE former_user_id = \(customer.user)
        UNION SELECT id FROM lifecycle_events WHERE former_device_id = \(customer.device)
        UNION SELECT id FROM lifecycle_events WHERE child_device_ids ? \(customer.device)
        """
      return [
        """
        DELETE FROM outbox WHERE destination = 'event' AND key IN (
          SELECT id::text FROM lifecycle_events
          WHERE id IN (\(named)) AND \(isOwn) AND \(customer.isOfApp()))
        """,
        """
        UPDATE lifecycle_events SET erased_at = CASE WHEN is_own THEN \(customer.instant) ELSE erased_at END,
          user_id = CASE WHEN user_id = \(customer.user) THEN \(user)::uuid ELSE user_id END,
          device_id = CASE WHEN device_id = \(customer.device) THEN \(customer.pseudonym) ELSE device_id END,
          former_user_id = CASE WHEN former_user_id = \(customer.user) THEN \(user)::uuid ELSE former_user_id END,
          former_device_id = CASE WHEN former_device_id = \(customer.device) THEN \(customer.pseudonym)
            ELSE former_device_id END,
          child_device_ids = CASE WHEN NOT is_own THEN (
            SELECT jsonb_agg(CASE WHEN child.id = \(customer.device) THEN \(customer.pseudonym) ELSE child.id END
              ORDER BY child.place)
            FROM jsonb_array_elements_text(child_device_ids) WITH ORDINALITY AS child (id, place)) END
        FROM (
          SELECT id AS named, \(isOwn) AS is_own FROM lifecycle_events
          WHERE id IN (\(named)) AND (\(isOwn) OR former_user_id = \(customer.user) OR former_device_id = \(customer.device)
            OR child_device_ids ? \(customer.device)) AND \(customer.isOfApp())
          ORDER BY id FOR UPDATE) AS locked
        WHERE id = named
        """,
      ]
    })

  /// The rows that tell the app's destinations of the erasure are added before, or replace the customer's, and have the
  /// id until they are delivered.
  private static let outbox = CustomerTable(
    "outbox", "the destinations are told; then deleted",
    columns: """
      id destination bundle_id endpoint key payload change created_at attempts next_attempt_at claimed_by claimed_until \
      attempted_digest delivered_digest last_error done_at dead_at
      """,
    export: { customer in
      """
      SELECT to_jsonb(o) - '{attempted_digest,delivered_digest,claimed_by,claimed_until}'::text[] AS row
      FROM outbox o
      WHERE key = \(customer.id) AND destination NOT IN ('event', 'notification')
        AND (destination <> 'profiles' OR \(customer.user)::uuid IS NOT NULL) AND \(customer.isOfAppAndKind)
      """
    },
    erase: { customer in
      [
        """
        DELETE FROM outbox
        WHERE key = \(customer.id) AND destination NOT IN ('profiles', 'event', 'notification')
          AND NOT payload ? 'erased' AND \(customer.isOfAppAndKind)
        """,
        // A status for a table to which no configured app writes would wait for good.
        """
        DELETE FROM outbox
        WHERE destination = 'profiles' AND key = \(customer.user)::uuid::text AND payload ? 'tables'
          AND NOT payload -> 'tables' ?| \(customer.servedTables)
        """,
        ImpersonalFacts.forwards(customer.reducedPurchases, or: customer.endedNotifications),
      ]
    })

  /// The function `receiptd_erase_actions` does it, after all other tables: it records their counts. What support
  /// decided about a purchase that a device inherits, such as a preference about its refund, holds for that device. The
  /// export has the changes of the customer's own purchases alone, and the same function finds the ids of other
  /// customers.
  private static let actions = CustomerTable(
    "support_actions", "of the pseudonym, without reasons and details",
    columns: """
      id at action bundle_id original_transaction_id from_customer to_customer customer customer_kind by actor \
      person_id reason details
      """,
    export: { customer in
      """
      SELECT jsonb_build_object('id', id, 'at', at, 'action', action, 'bundle_id', bundle_id,
        'original_transaction_id', original_transaction_id,
        'from_customer', CASE WHEN from_customer <> \(customer.id) THEN 'another customer' ELSE from_customer END,
        'to_customer', CASE WHEN to_customer <> \(customer.id) THEN 'another customer' ELSE to_customer END,
        'by', by, 'reason', reason, 'details', receiptd_rename_in_details(
          CASE jsonb_typeof(details) WHEN 'object' THEN details - ARRAY(
            SELECT key FROM jsonb_object_keys(details) AS key
            WHERE key ~ '^[0-9]{1,20}$' AND key <> ALL(\(customer.purchases))) ELSE details END,
          \(customer.id), 'another customer', true)) AS row
      FROM support_actions
      WHERE (from_customer = \(customer.id) OR to_customer = \(customer.id)) AND \(customer.isOfApp())
          AND coalesce(customer_kind, \(customer.customer.kindWord)) = \(customer.customer.kindWord)
        OR original_transaction_id = ANY(\(customer.purchases)) ORDER BY support_actions.id
      """
    },
    erase: { _ in [] })
}
