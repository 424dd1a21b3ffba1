/// How an app treats old builds of its client, which write premium status themselves and send bare transaction ids.
public enum ClientWrites: String, Sendable, Hashable, CaseIterable {
  /// Old builds write the premium columns, and get or join purchases by a bare transaction id.
  case accept
  /// The premium columns keep the server's values; a client's claim is noted. Old builds get or join purchases
  /// by a bare transaction id.
  case observe
  /// Clients write no premium column, and a customer needs signed data to get or join a purchase.
  case refuse
}
