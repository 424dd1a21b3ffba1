import Customers
import Postgres

extension CustomerTable {
  /// What receiptd knows of a customer beside purchases.
  static let customerTables = [
    trials, devices, pairingCodes, secrets, grants, consents, events, seenUsers, clientWrites, backendWrites,
    addedRows,
    adoptions,
    profiles, preferences, freeAccessRows,
  ]

  private static let trials = CustomerTable(
    "trials", "of the pseudonym; a keyed digest of the account prevents a second trial",
    columns: """
      id bundle_id device_id app_transaction_id environment started_at ends_at extended_days continues joined_at \
      counted_moves counted_moves_since displaced_device_id displaced_at next_displaced_device_id \
      next_displaced_at
      """,
    export: { customer in
      """
      SELECT \(customer.withoutDisplaced("t")) AS row FROM trials t
      WHERE device_id = \(customer.device) AND \(customer.isOfApp())
      UNION ALL \(customer.lostPlaces(in: "trials"))
      """
    },
    erase: { customer in
      [
        """
        UPDATE trials SET device_id = \(customer.pseudonym), displaced_device_id = NULL, displaced_at = NULL,
          next_displaced_device_id = NULL, next_displaced_at = NULL
        WHERE device_id = \(customer.device) AND \(customer.isOfApp())
        """
      ]
    },
    eraseFromOthers: { $0.forgetDisplaced(in: "trials") })

  /// A child's pairing is a row of its parent.
  static let devices = CustomerTable(
    "devices", "deleted, with the children's names",
    columns:
      "id bundle_id device_id child_device_id name paired_at confirmed_at moved_by former_parents",
    export: { customer in
      """
      SELECT to_jsonb(d) - 'moved_by' - 'former_parents' || CASE WHEN device_id = \(customer.device)
        THEN '{"child_device_id": "another customer"}'::jsonb ELSE '{"device_id": "another customer"}' END AS row
      FROM devices d
      WHERE (device_id = \(customer.device) OR child_device_id = \(customer.device)) AND \(customer.isOfApp())
      """
    },
    erase: { [DeviceRows.end(where: "device_id = \($0.device) AND \($0.isOfApp())", at: $0.instant)] },
    eraseFromOthers: {
      [
        "DELETE FROM devices WHERE child_device_id = \($0.device) AND \($0.isOfApp())",
        """
        UPDATE devices SET former_parents = array_remove(former_parents, \($0.device)::text)
        WHERE former_parents <> '{}' AND former_parents @> ARRAY[\($0.device)::text] AND \($0.isOfApp())
        """,
      ]
    })

  private static let pairingCodes = CustomerTable(
    "pairing_codes", "deleted",
    columns: "bundle_id code_hash device_id created_at expires_at used_at",
    export: { customer in
      """
      SELECT to_jsonb(c) - 'code_hash' AS row FROM pairing_codes c
      WHERE device_id = \(customer.device) AND \(customer.isOfApp())
      """
    },
    erase: { ["DELETE FROM pairing_codes WHERE device_id = \($0.device) AND \($0.isOfApp())"] })

  private static let secrets = CustomerTable(
    "device_secrets", "deleted",
    columns: "bundle_id device_id secret_hash set_at replacements replacements_since account_hash kept_at",
    export: { customer in
      """
      SELECT to_jsonb(d) - 'secret_hash' - 'account_hash' AS row FROM device_secrets d
      WHERE device_id = \(customer.device) AND \(customer.isOfApp())
      """
    },
    erase: { ["DELETE FROM device_secrets WHERE device_id = \($0.device) AND \($0.isOfApp())"] })

  /// An award that support revoked keeps the account's digest, so that it is not given again.
  private static let grants = CustomerTable(
    "grants", "ended; of the pseudonym, without the reason",
    columns: """
      id bundle_id user_id device_id tier environment is_counted starts_at ends_at reason granted_by app_transaction_id \
      created_at revoked_at revoked_by next_change_at followed_until
      """,
    export: { customer in
      """
      SELECT to_jsonb(g) AS row FROM grants g
      WHERE (user_id = \(customer.user) OR device_id = \(customer.device)) AND \(customer.isOfApp())
      ORDER BY starts_at
      """
    },
    erase: { customer in
      [
        """
        UPDATE grants SET reason = '(erased)',
          user_id = CASE WHEN user_id IS NOT NULL THEN \(customer.user == nil ? nil : customer.pseudonym)::uuid END,
          device_id = CASE WHEN device_id IS NOT NULL THEN \(customer.pseudonym) END,
          app_transaction_id = CASE WHEN revoked_at IS NOT NULL THEN receiptd_erased_account(app_transaction_id) END,
          revoked_by = CASE WHEN revoked_at IS NULL AND coalesce(ends_at > \(customer.instant), true)
            THEN 'erase-customer' ELSE revoked_by END,
          revoked_at = CASE WHEN revoked_at IS NULL AND coalesce(ends_at > \(customer.instant), true)
            THEN \(customer.instant) ELSE revoked_at END,
          followed_until = greatest(followed_until, \(customer.instant))
        WHERE (user_id = \(customer.user) OR device_id = \(customer.device)) AND \(customer.isOfApp())
        """
      ]
    })

  /// Past answers to the App Store needed the consent, so its times are kept.
  private static let consents = CustomerTable(
    "consents", "of the pseudonym", columns: "bundle_id customer is_given changed_at given_at withdrawn_at",
    export: { customer in
      """
      SELECT to_jsonb(c) AS row FROM consents c
      WHERE customer = \(customer.id) AND bundle_id = ANY(\(customer.appIDs))
      """
    },
    erase: {
      [
        "UPDATE consents SET customer = \($0.pseudonym) WHERE bundle_id = ANY(\($0.appIDs)) AND customer = \($0.id)"
      ]
    })

  private static let events = CustomerTable(
    "events", "of the pseudonym, without properties",
    columns: "bundle_id customer_id id name at received_at properties",
    export: { customer in
      """
      SELECT to_jsonb(e) AS row FROM events e
      WHERE bundle_id = ANY(\(customer.appIDs)) AND customer_id = \(customer.id) ORDER BY at
      """
    },
    erase: { customer in
      [
        """
        UPDATE events SET customer_id = \(customer.pseudonym), properties = NULL
        WHERE ctid = ANY(ARRAY(
          SELECT ctid FROM events WHERE bundle_id = ANY(\(customer.appIDs)) AND customer_id = \(customer.id)
          LIMIT \(customer.mostEvents)::bigint))
        """
      ]
    })

  private static let seenUsers = CustomerTable(
    "seen_users", "deleted", columns: "user_id bundle_id first_seen_at last_seen_at",
    export: { "SELECT to_jsonb(s) AS row FROM seen_users s WHERE user_id = \($0.user) AND \($0.isOfApp())" },
    erase: { customer in
      guard let user = customer.user else { return [] }
      return [
        "DELETE FROM seen_users WHERE user_id = \(user) AND \(customer.isOfApp())"
      ]
    })

  private static let clientWrites = CustomerTable(
    "client_writes", "deleted",
    columns: """
      id table_name user_id original_transaction_id product_id expires_at is_premium mode writes daily_writes first_at \
      last_at attempts next_attempt_at verified_at outcome
      """,
    export: { "SELECT to_jsonb(w) AS row FROM client_writes w WHERE \($0.isOwnClaim)" },
    erase: { ["DELETE FROM client_writes w WHERE \($0.isOwnClaim)"] })

  private static let backendWrites = CustomerTable(
    "backend_writes", "deleted",
    columns: "table_name user_id last_at",
    export: { customer in
      """
      SELECT to_jsonb(b) AS row FROM backend_writes b
      WHERE user_id = \(customer.user) AND table_name = ANY(\(customer.profileTables + customer.sharedTables))
      """
    },
    erase: {
      ["DELETE FROM backend_writes WHERE user_id = \($0.user) AND table_name = ANY(\($0.profileTables))"]
    })

  /// The function `receiptd_erase_actions` deletes the rows themselves, and a trigger the notes of them.
  private static let addedRows = CustomerTable(
    "added_profile_rows", "deleted, with the row of the app's table if receiptd added it",
    columns: "table_name user_id added_at",
    export: { customer in
      """
      SELECT to_jsonb(a) AS row FROM added_profile_rows a
      WHERE user_id = \(customer.user) AND table_name = ANY(\(customer.profileTables + customer.sharedTables))
      """
    },
    erase: {
      ["SELECT FROM added_profile_rows WHERE user_id = \($0.user) AND table_name = ANY(\($0.profileTables))"]
    })

  private static let adoptions = CustomerTable(
    "adoptions", "of the pseudonym",
    columns:
      "bundle_id customer original_transaction_id source outcome detail purchase_id grant_id run_id at",
    export: { customer in
      """
      SELECT to_jsonb(a) AS row FROM adoptions a
      WHERE customer = \(customer.id) AND bundle_id = ANY(\(customer.appIDs))
      """
    },
    erase: { customer in
      [
        """
        UPDATE adoptions SET customer = \(customer.pseudonym), detail = NULL
        WHERE customer = \(customer.id) AND bundle_id = ANY(\(customer.appIDs))
        """
      ]
    })

  /// Written by ``ProfileWriter``, which may have to wait for the row. The report counts a row whose values change,
  /// also if it is deleted then.
  private static let profiles = CustomerTable(
    "profiles", "free; deleted if receiptd added the row",
    columns: "id premium_expires_at premium_product_id premium_original_transaction_id",
    export: { customer in
      """
      SELECT jsonb_build_object('id', id, 'premium_expires_at', premium_expires_at, 'premium_product_id',
        premium_product_id, 'premium_original_transaction_id', premium_original_transaction_id) AS row
      FROM profiles WHERE id = \(customer.user) AND 'profiles' = ANY(\(customer.profileTables + customer.sharedTables))
      """
    },
    erase: { _ in [] })

  private static let preferences = CustomerTable(
    "user_preferences", "free; deleted if receiptd added the row",
    columns: "user_id is_premium bookmark_limit created_at",
    export: { customer in
      """
      SELECT jsonb_build_object('user_id', user_id, 'is_premium', is_premium, 'bookmark_limit', bookmark_limit) AS row
      FROM user_preferences
      WHERE user_id = \(customer.user) AND 'user_preferences' = ANY(\(customer.profileTables + customer.sharedTables))
      """
    },
    erase: { _ in [] })

  /// After the app's own tables: a sweep that saves a row meanwhile holds its lock.
  private static let freeAccessRows = CustomerTable(
    "free_access_rows", "deleted",
    columns: "table_name user_id bundle_id former written",
    export: { customer in
      """
      SELECT to_jsonb(f) AS row FROM free_access_rows f
      WHERE user_id = \(customer.user) AND table_name = ANY(\(customer.profileTables + customer.sharedTables))
      """
    },
    erase: {
      ["DELETE FROM free_access_rows WHERE user_id = \($0.user) AND table_name = ANY(\($0.profileTables))"]
    })
}
