/// The columns, keys and triggers that receiptd needs of a table that may be the app's own.
struct TableShape {
  let name: String
  /// The types of the columns that receiptd reads and writes.
  let types: [(column: String, type: String)]
  /// The columns into which receiptd never writes NULL.
  let required: Set<String>
  /// The column with a unique key, by which receiptd finds the row to update.
  let key: String
  /// Whether only receiptd adds rows, so that every other column needs a default.
  let isFilledByServer: Bool
  /// The triggers of the app's own tables.
  let triggers: [String]

  static let subscriptions = TableShape(
    name: "subscriptions",
    types: types(
      [
        "text":
          """
        original_transaction_id device_id transaction_id product_id tier status bundle_id environment store_status \
        ownership currency kind renews_as upcoming_product_id upcoming_tier owned_because taken_from app_transaction_id \
        erased_as
        """,
        "timestamp with time zone":
          """
        purchase_date expiry_date last_validated_at created_at updated_at status_since grace_expires_at revoked_at \
        signed_at next_change_at store_asked_at old_proof_signed_at old_proof_marked_at \
        old_proof_due_at old_proof_asked_at old_proof_unknown_at erased_at
        """,
        "uuid": "user_id app_account_token", "boolean": "auto_renew_enabled is_counted",
        "bigint": "price_milliunits", "timestamp with time zone[]": "phase_starts",
        "text[]": "phase_statuses phase_store_statuses erased_tokens",
      ]),
    required: ["original_transaction_id", "created_at", "updated_at"], key: "original_transaction_id",
    isFilledByServer: true, triggers: [])

  static let profiles = TableShape(
    name: "profiles",
    types: types(
      [
        "uuid": "id", "timestamp with time zone": "premium_expires_at",
        "text": "premium_product_id premium_original_transaction_id",
      ]),
    required: ["id"], key: "id", isFilledByServer: false, triggers: clientGuards)

  static let userPreferences = TableShape(
    name: "user_preferences",
    types: types(["uuid": "user_id", "boolean": "is_premium", "bigint": "bookmark_limit"]),
    required: ["user_id", "is_premium", "bookmark_limit"], key: "user_id", isFilledByServer: false,
    triggers: clientGuards)

  /// The triggers of `migrations/20260420_client_writes.sql` and `migrations/20261123_client_writers.sql`.
  private static let clientGuards = [
    "receiptd_forget_added_delete", "receiptd_forget_added_update", "receiptd_guard_caller_insert",
    "receiptd_guard_caller_update", "receiptd_guard_premium_insert", "receiptd_guard_premium_update",
    "receiptd_keep_created_at", "receiptd_touch_updated_at",
  ]

  private static func types(_ columns: [String: String]) -> [(column: String, type: String)] {
    columns.flatMap { type, names in names.split(separator: " ").map { (String($0), type) } }
      .sorted { $0.0 < $1.0 }
  }
}
