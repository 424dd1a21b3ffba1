import Postgres

extension KeptPayload {
  /// Decodes a row of ``NotificationRows/payload(of:)``.
  init(_ row: Row) throws {
    guard let envelope = try Part(row, "envelope") else { throw UnreadableRow(column: "envelope_header") }
    self.init(
      envelope: envelope, transaction: try Part(row, "transaction"), renewalInfo: try Part(row, "renewal"))
  }
}

extension KeptPayload.Part {
  /// - Parameter prefix: of the names of the part's columns.
  /// - Returns: `nil` if the notification has no such part.
  fileprivate init?(_ row: Row, _ prefix: String) throws {
    guard let header = try row.decode("\(prefix)_header", as: String?.self) else { return nil }
    self.init(
      headerFingerprint: try row.decode("\(prefix)_sha256"), headerSegment: Array(header.utf8),
      claims: Array(try row.decode("\(prefix)_claims", as: String.self).utf8),
      signature: try row.decode("\(prefix)_signature"))
  }
}
