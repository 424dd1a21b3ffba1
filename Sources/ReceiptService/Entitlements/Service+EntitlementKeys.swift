extension Service {
  /// Reads the signing keys of entitlement tokens and creates the first one if there is none.
  ///
  /// Call it before the first request, so that its response has a token. While the database is unavailable, responses have
  /// none.
  public func loadEntitlementKeys() async {
    await entitlementKeyRefresh?.run()
  }

  /// Creates a new signing key for entitlement tokens. All servers publish it within about a minute; it signs an hour
  /// later.
  ///
  /// - Parameter isLeaked: the private key may be known to others: the new key signs at once, and clients that fetch the
  ///   key set again reject all earlier tokens.
  /// - Throws: ``SupportRefusal`` if the keys are files or a new key does not sign yet; errors of the database.
  public func rotateEntitlementKey(
    isLeaked: Bool = false, by author: SupportAuthor
  ) async throws -> EntitlementKeyRotation {
    guard let refresh = entitlementKeyRefresh else {
      throw SupportRefusal.invalid(
        "ENTITLEMENT_KEY is set: append the new key's file to the list, and an hour later move it to the front."
      )
    }
    return try await refresh.store.rotate(isLeaked: isLeaked, by: author)
  }
}
