/// How an app treats old builds of its client, which write premium status themselves and send bare transaction ids.
public enum ClientWrites: String, Sendable, Hashable, CaseIterable {
  /// Old builds write the premium columns, and join purchases by a bare transaction id.
  case accept
  /// The premium columns keep the server's values; a client's claim is noted. Old builds join purchases by a bare
  /// transaction id.
  case observe
  /// Clients write no premium column, and a device needs signed data to join a purchase.
  case refuse

  /// Whether a device may join another device's purchase with a bare transaction id, which proves no possession.
  public var admitsBareTransactionIDs: Bool { self != .refuse }
}
