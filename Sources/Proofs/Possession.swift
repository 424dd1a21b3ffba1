import AppStore
import Configuration
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions
import Text

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
  /// Without `clientWrites`, an app whose customers are devices has no old builds. An app with users may have some: the
  /// modes of its tables are set by what the database had.
  func claim(in app: App) -> ClaimStrength {
    if self == .proven { return .proof }
    return switch app.clientWrites {
    case .accept, .observe: .oldBuild
    case .refuse: .nothing
    case nil: app.customer == .device ? .name : .oldBuild
    }
  }
}

extension AccountProof {
  /// - Parameter purchase: from a signed transaction that the client sent.
  init?(_ purchase: ProvenPurchase) {
    guard let fact = purchase.transactions.first?.fact else { return nil }
    self.init(
      environment: fact.environment.rawValue, appTransactionID: fact.appTransactionID,
      originalTransactionID: fact.originalTransactionID)
  }
}

extension PostgresPool {
  /// Whether another user claims a purchase by a transaction id. An id proves no possession, so then it binds no
  /// customer.
  package func isClaimedByAnother(_ purchase: ProvenPurchase, than claimant: Customer) async throws -> Bool {
    guard case .user(let user) = claimant, purchase.app.writeTo.contains(.profiles) else { return false }
    return try await query(
      RivalClaims.exist(
        than: user, purchase: purchase.originalTransactionID,
        transactions: purchase.transactions.map(\.fact.transactionID))
    ).first?.decode("is_claimed", as: Bool.self) ?? false
  }
}

/// Claims of other users to a purchase, by a transaction id.
private enum RivalClaims {
  /// Whether another user claims a purchase too, by any of its transaction ids: in `profiles`, or by an undecided
  /// client write or adoption (`is_claimed`).
  static func exist(
    than user: UUID, purchase originalTransactionID: String, transactions: [String]
  ) -> Query {
    """
    WITH named AS (
      SELECT unnest(\(transactions + [originalTransactionID])) AS id
      UNION SELECT transaction_id FROM transactions WHERE original_transaction_id = \(originalTransactionID))
    SELECT EXISTS (
        SELECT FROM profiles p JOIN named ON named.id = p.premium_original_transaction_id WHERE p.id <> \(user))
      OR EXISTS (
        SELECT FROM client_writes w JOIN named ON named.id = w.original_transaction_id
        WHERE w.user_id <> \(user) AND w.table_name = 'profiles' AND (w.outcome IS NULL OR w.outcome = ANY(\(undecided))))
      OR EXISTS (
        SELECT FROM adoptions a JOIN named ON named.id = a.original_transaction_id
        WHERE a.customer <> \(user.uuidString.lowercased()) AND a.outcome = ANY(\(undecided))) AS is_claimed
    """
  }

  /// The outcomes of claims that several customers may still make.
  private static let undecided = ["failed", "claimed_twice"]
}
