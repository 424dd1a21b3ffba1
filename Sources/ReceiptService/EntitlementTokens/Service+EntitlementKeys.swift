extension Service {
  /// Reads the keys of entitlement tokens, and makes the first one where there is none.
  ///
  /// Before the first answer, so that it has a token. Where the database is away, the answers until it is back have
  /// none.
  public func loadEntitlementKeys() async {
    await entitlementKeyRefresh?.run()
  }

  /// Makes a new key for entitlement tokens: published at once by every server within a minute or so, and signing an
  /// hour later.
  ///
  /// - Parameter isLeaked: somebody else may have the key: the new one signs at once, and whatever the ones before
  ///   signed is refused by every client that looks at the key set again.
  /// - Throws: ``SupportRefusal`` where the keys are files, or a new one waits already; what the database throws.
  public func rotateEntitlementKey(
    isLeaked: Bool = false, by author: SupportAuthor
  ) async throws -> EntitlementKeyRotation {
    guard let refresh = entitlementKeyRefresh else {
      throw SupportRefusal.invalid(
        "ENTITLEMENT_KEY is set: put the new file behind the old one, and an hour later before it.")
    }
    return try await refresh.store.rotate(isLeaked: isLeaked, by: author)
  }
}
