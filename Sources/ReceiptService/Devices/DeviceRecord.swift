import Postgres

/// A device's trial and purchases in the database, compared with a proof; a row of
/// ``DeviceSecretRows/record(of:in:proof:at:)``.
struct DeviceRecord: Sendable {
  /// Whether the device has no trial, purchase, grant or paired device, and lost no purchase to another device lately.
  let isEmpty: Bool
  /// Whether the proof's account is that of its trial or of one of its purchases.
  let matchesSome: Bool
  /// Whether the device has a trial or a purchase, and the proof's account is that of all of them.
  let matchesAll: Bool

  init(_ row: Row) throws {
    isEmpty = try row.decode("is_empty")
    matchesSome = try row.decode("matches_some")
    matchesAll = try row.decode("matches_all")
  }
}
