import AppStore
import Subscriptions

/// Whether a request to validate shows that its client has the purchase's Apple Account.
enum Possession: Sendable, Hashable {
  /// The client sent the signed transaction, or its id with an app transaction of the same Apple Account.
  case proven
  /// The client sent only an id or a legacy receipt, which any client can know.
  case unproven
  /// The client sent an id with an app transaction of another Apple Account.
  case disproven

  /// - Parameter appTransaction: the verified app transaction of the request, if any.
  init(of purchase: ProvenPurchase, _ body: ValidateRequest, _ appTransaction: Signed<AppTransaction>?) {
    guard body.signedTransaction == nil else {
      self = .proven
      return
    }
    let facts = purchase.transactions.map(\.fact)
    let accounts = Set(facts.compactMap(\.appTransactionID))
    // Transactions and app transactions that were signed before 2025 may lack the id, and then nothing can be compared.
    guard let shown = appTransaction?.payload, let account = shown.appTransactionId?.storable,
      !accounts.isEmpty
    else {
      self = .unproven
      return
    }
    let isSameEnvironment = facts.allSatisfy { $0.environment.rawValue == shown.receiptType.rawValue }
    self = isSameEnvironment && accounts.contains(account) ? .proven : .disproven
  }

  /// The right that it gives to the purchase.
  ///
  /// Without `clientWrites`, an app whose customers are devices has no old builds. An app with users may have some: the modes of
  /// its tables are set by what the database had.
  func claim(in app: App) -> ClaimStrength {
    if self == .proven { return .proof }
    return switch app.clientWrites {
    case .accept, .observe: .oldBuild
    case .refuse: .nothing
    case nil: app.customer == .device ? .name : .oldBuild
    }
  }
}
