/// Ids of rows in `jws_headers` by the SHA-256 of the header.
struct JWSHeaderIDs: Sendable {
  var byFingerprint: [[UInt8]: Int32] = [:]

  subscript(part: KeptPayload.Part) -> Int32? { byFingerprint[part.headerFingerprint] }
}
