import AppStore
import AppStoreSimulator
import Foundation
import Subscriptions

@testable import Ledger
@testable import ReceiptService

/// A fact of a life in the form that the service decodes.
enum KnownFact {
  case transaction(TransactionFact)
  case renewal(RenewalFact)

  init(_ fact: LifeFact) throws {
    switch fact {
    case .transaction(let info): self = .transaction(try TransactionFact(info))
    case .renewal(let info): self = .renewal(try RenewalFact(info))
    }
  }

  var originalTransactionID: String {
    switch self {
    case .transaction(let fact): fact.originalTransactionID
    case .renewal(let fact): fact.originalTransactionID
    }
  }
}

/// The known facts of every purchase of a life.
struct KnownFacts: Equatable {
  private(set) var purchases: [String: SubscriptionFacts] = [:]

  init() {}

  init(_ facts: some Sequence<KnownFact>) {
    for fact in facts { add(fact) }
  }

  /// - Returns: whether the fact was new.
  @discardableResult
  mutating func add(_ fact: KnownFact) -> Bool {
    switch fact {
    case .transaction(let transaction):
      purchases[transaction.originalTransactionID, default: SubscriptionFacts()].add(transaction)
    case .renewal(let renewal):
      purchases[renewal.originalTransactionID, default: SubscriptionFacts()].add(renewal)
    }
  }

  /// Whether any fact about the transaction is known.
  func knows(_ transactionID: String, of originalTransactionID: String) -> Bool {
    purchases[originalTransactionID]?.transactions[transactionID] != nil
  }

  /// The differences between the folded facts and the store's truth; empty if they agree.
  /// - Parameter comparingOpenProduct: false if only the latest transaction may be known. The product that is active
  /// until a renewal charged ahead begins is in the transaction before it.
  func disagreements(
    with truths: [PurchaseTruth], under app: App, comparingOpenProduct: Bool = true
  ) -> [String] {
    truths.flatMap { truth -> [String] in
      guard let subscription = purchases[truth.originalTransactionID]?.subscription(under: app) else {
        return ["\(truth.originalTransactionID): nothing is known"]
      }
      var truth = truth
      if !comparingOpenProduct { truth.entitledProductID = subscription.productID(at: truth.asOf) }
      return subscription.disagreements(with: truth, under: app).map {
        "\(truth.originalTransactionID) at \(truth.asOf.formatted(.withMilliseconds)): \($0)"
      }
    }
  }
}

extension RandomLife {
  /// The store's truth about every purchase at `instant`.
  func truths(at instant: Date) -> [PurchaseTruth] {
    purchases.compactMap { store.truth(of: $0, at: instant) }
  }

  /// The end of the life and the later instants at which a status changes without an event, each with the millisecond
  /// before it.
  func instants(under app: App) -> [Date] {
    var instants: Set<Date> = [end, end + 400 * 86_400]
    for truth in truths(at: end) {
      let paidUntil = truth.paidUntil(under: app)
      let changes = [
        truth.purchaseDate, paidUntil, truth.gracePeriodExpiresDate, paidUntil.map { $0 + 60 * 86_400 },
        paidUntil.map { $0 + (app.grace?.duration ?? 0) },
      ]
      for change in changes.compactMap(\.self) {
        instants.formUnion([change - 0.001, change])
      }
    }
    return instants.filter { $0 >= end }.sorted()
  }
}

extension PurchaseTruth {
  /// The end of the paid time; for a product without renewal the app configures it.
  func paidUntil(under app: App) -> Date? {
    expiresDate
      ?? app.product(named: productID)?.accessDays.map { purchaseDate + TimeInterval($0) * 86_400 }
  }
}

extension Subscription {
  /// The differences between this subscription and the statuses that follow from the truth.
  func disagreements(with truth: PurchaseTruth, under app: App) -> [String] {
    let instant = truth.asOf
    let phase = phase(at: instant)
    let paidUntil = truth.paidUntil(under: app)
    var storeStatus = StoreStatus(truth.status)
    if storeStatus == .active, let paidUntil, instant >= paidUntil { storeStatus = .expired }
    let isInOwnGrace = paidUntil.map { instant < $0 + (app.grace?.duration ?? 0) } ?? false
    let status: Status =
      switch storeStatus {
      case .active: .active
      case .billingGrace: .grace
      case .billingRetry, .expired: isInOwnGrace ? .grace : .expired
      case .revoked: .cancelled
      }
    let graceEnd = truth.status == .revoked ? nil : truth.gracePeriodExpiresDate
    let grantsAccess = [.active, .billingGrace].contains(phase.storeStatus)

    var found: [String] = []
    func compare<Value: Equatable>(_ name: String, _ folded: Value, _ true: Value) {
      if folded != `true` { found.append("\(name) is \(folded) and should be \(`true`)") }
    }
    compare("store status", phase.storeStatus, storeStatus)
    compare("status", phase.status, status)
    compare("access", grantsAccess, truth.grantsAccess && storeStatus != .expired)
    compare("transaction", current.transactionID, truth.transactionID)
    compare("product", productID, truth.productID)
    // A purchase in the same millisecond as the purchase that it replaces is dated a millisecond ahead. In that
    // millisecond either product may be active.
    if truth.grantsAccess, truth.purchaseDate <= instant || truth.entitledProductID != truth.productID {
      compare("open product", productID(at: instant), truth.entitledProductID)
    }
    compare("expiry", milliseconds(current.expiresDate), milliseconds(paidUntil))
    compare("billing grace", milliseconds(graceExpiresDate), milliseconds(graceEnd))
    compare("auto-renewal", autoRenewEnabled, truth.autoRenews)
    compare("next product", renewsAs, truth.renewsAs)
    compare("ownership", current.ownership, truth.ownership?.rawValue ?? "PURCHASED")
    if truth.appAccountToken != nil { compare("customer", customerToken, truth.appAccountToken) }
    return found
  }
}

extension StoreStatus {
  fileprivate init(_ status: SubscriptionStatus) {
    self =
      switch status {
      case .active: .active
      case .billingRetry: .billingRetry
      case .billingGracePeriod: .billingGrace
      case .revoked: .revoked
      default: .expired
      }
  }
}

extension FormatStyle where Self == Date.ISO8601FormatStyle {
  fileprivate static var withMilliseconds: Self { Self(includingFractionalSeconds: true) }
}

private func milliseconds(_ date: Date?) -> Int64? {
  date.map { Int64(($0.timeIntervalSince1970 * 1000).rounded()) }
}
