import Actions
import AppStore
import Customers
import FoundationEssentials
import Logging
import Subscriptions

/// A unit of work for the ledger: signed facts about one purchase, with the notification or the claim that came with them.
struct LedgerEntry: Sendable {
  /// The app from the catalog; `nil` if it is not configured.
  var app: App?
  /// The purchase that the facts are about; `nil` for a notification without one.
  var originalTransactionID: String?
  /// Signed transactions, all of that purchase.
  var transactions: [TransactionRecord] = []
  /// Signed renewal infos, all of that purchase.
  var renewals: [RenewalRecord] = []
  /// The notification that carried the facts; stored in the same commit.
  var notification: KeptNotification? = nil
  /// Whether the notification is stored already and is processed again.
  var isReplay = false
  /// The record for `support_actions`, written in the same commit.
  var action: LedgerAction?
  /// The App Store's question about a refund, to be answered later; `nil` for none.
  var refundRequest: RefundRequest?
  /// The customer who claims the purchase; `nil` for none.
  var claimant: Customer?
  /// How the claimant's request was admitted, if the claimant is a device.
  var admission: DeviceAdmission?
  /// The right that the claimant's evidence gives.
  var claim = ClaimStrength.proof
  /// The transfer that support has ordered; `nil` for none.
  var transfer: SupportTransfer?
  /// Whether a client sent the facts, which sets `last_validated_at`.
  var isValidation = false
  /// When the entry was made, by the service's clock.
  var instant: Date

  /// The name of the lock that serializes writes: the purchase's id, or the notification's uuid if it has no purchase.
  var lockName: String? { originalTransactionID ?? notification?.uuid.uuidString }

  /// The locks that this entry has in common with others: a client can send any number of purchases of one customer at once, and
  /// one purchase for any number of customers.
  var lockKeys: [LedgerLockKey] {
    [lockName.map(LedgerLockKey.purchase), claimant.map(LedgerLockKey.customer)].compactMap(\.self)
  }
}

/// A lock of the ledger that entries have in common.
enum LedgerLockKey: Sendable, Hashable {
  case purchase(String)
  case customer(Customer)
}

/// The right to a purchase that the evidence of a claimant gives.
enum ClaimStrength: Sendable, Hashable {
  /// The claimant shows possession: the app's rules decide.
  case proof
  /// The claimant is an old build that names the transaction's id. It gets a purchase without an owner, and a device joins one
  /// of other devices.
  case oldBuild
  /// The claimant, or a table or a file, names the id. It gets a purchase that has no owner, and for which Apple's
  /// `appAccountToken` names no user.
  case name
  /// The claimant names the id, and the app refuses old builds: it gets nothing that it does not have.
  case nothing
}

/// An action that is recorded in `support_actions`.
enum LedgerAction: Sendable {
  /// A person replayed a stored notification.
  case replay(by: SupportAuthor)
  /// A status request for an overdue renewal; recorded where it changed the purchase's row.
  case overdueRenewal
  /// A look-up by support at the App Store; recorded where it changed something. The changes are those beside the purchase's row.
  case lookup(by: SupportActor, changes: [FieldChange])
  /// A request about a purchase that only an old proof told of; recorded where it changed the purchase's row.
  case oldProof
}

/// The result of an entry, as committed.
struct LedgerReceipt: Sendable {
  /// The notification was stored already: nothing was written.
  var isDuplicate = false
  /// The entry contradicts the stored purchase (another app or environment): its facts were not recorded.
  var isContradiction = false
  /// The stored secret of the device is another one than that of the entry's admission: nothing was written.
  var isSecretChanged = false
  /// Whether any fact was new.
  var isNews = false
  /// The entry is committed, but a row of a customer of this batch cannot be read, so ``customerRecords`` is missing.
  var areCustomerRecordsUnread = false
  /// Events of the store that were not known before.
  var storeEvents: [StoreEvent] = []
  /// The first payment that was known before; `nil` for none.
  var previousFirstPaidAt: Date?
  /// The first payment that is known now.
  var firstPaidAt: Date?
  /// Whether the purchase gives access by an old proof, of this entry or an earlier one, and the App Store has not answered about
  /// it; see ``OldProofs``.
  var isUnconfirmed = false
  /// The word for the notification's column `outcome`; `nil` where there is no notification.
  var outcome: String?
  /// Whether the notification took effect; otherwise it waits for a replay.
  var isProcessed = true
  /// The purchase before; `nil` where it was not known.
  var previous: StoredSubscription? = nil
  /// The purchase now; `nil` where no transaction of it is known.
  var subscription: StoredSubscription? = nil
  /// The result of the claim.
  var claim: ClaimOutcome = .settled(nil)
  /// The app's records, this purchase included, of the claimant if the purchase is theirs, otherwise of the owner. `nil`
  /// without an owner.
  var customerRecords: CustomerRecords?
  /// The app's periods of free access.
  var freeAccess = FreeAccess.never
}

extension LedgerEntry {
  /// The customer whose ``LedgerReceipt/customerRecords`` go into the receipt.
  func asks(about receipt: LedgerReceipt) -> Customer? {
    guard let stored = receipt.subscription, let owner = stored.owner?.customer else { return nil }
    return claimant.flatMap { stored.customers.contains($0) ? $0 : nil } ?? owner
  }
}

/// Makes ledger entries of the signed data in responses of the App Store Server API.
struct SignedPurchases: Sendable {
  let verifier: SignedDataVerifier
  let logger: Logger

  /// The entry of a subscription's latest transaction and renewal info; `nil` if the transaction does not verify.
  func entry(of item: LastTransactionsItem, in app: App, at instant: Date) -> LedgerEntry? {
    guard let jws = item.signedTransactionInfo, let transaction = transaction(jws, in: app) else {
      return nil
    }
    var entry = LedgerEntry(
      app: app, originalTransactionID: transaction.fact.originalTransactionID,
      transactions: [transaction], instant: instant)
    if let jws = item.signedRenewalInfo, let signed = try? verifier.renewalInfo(jws),
      (try? app.identity.check(signed.payload)) != nil, let record = try? RenewalRecord(signed),
      record.fact.originalTransactionID == entry.originalTransactionID
    {
      entry.renewals = [record]
    }
    return entry
  }

  /// The record of a signed transaction; `nil` if it does not verify.
  func transaction(_ jws: String, in app: App) -> TransactionRecord? {
    do {
      let signed = try verifier.transaction(jws)
      try app.identity.check(signed.payload)
      return try TransactionRecord(signed)
    } catch {
      logger.error(
        "signed data in a response of the App Store does not verify", metadata: ["reason": "\(error)"])
      return nil
    }
  }
}

/// A change of a purchase's owner, or a further device that shares it.
struct OwnershipMove: Sendable {
  var subscription: Subscription
  /// The customer who had it; `nil` for none. Of a shared purchase: the owner, who keeps it.
  var previous: Customer?
  /// The customer that has the purchase now.
  var customer: Customer
  var cause: Cause

  enum Cause: Sendable {
    /// Support transferred it.
    case support(SupportAuthor)
    /// The App Store signed another `appAccountToken`.
    case token
    /// Another customer proved it; or another device, beyond the limit of devices.
    case policy
    /// Another device proved it, within the limit of devices.
    case room
  }

  /// The moves that an entry made: one for each customer who lost the purchase, or one for its first owner.
  static func moves(
    to now: StoredSubscription, from before: StoredSubscription?, by entry: LedgerEntry, _ claim: ClaimOutcome
  ) -> [OwnershipMove] {
    func move(_ previous: Customer?, _ customer: Customer, _ cause: Cause) -> OwnershipMove {
      OwnershipMove(subscription: now.subscription, previous: previous, customer: customer, cause: cause)
    }
    if let transfer = entry.transfer {
      guard let owner = now.owner else { return [] }
      let losers = (before?.customers ?? []).subtracting(now.customers).subtracting(
        [before?.owner?.customer].compactMap(\.self))
      let cause = Cause.support(transfer.author)
      // Repeating a transfer changes no owner, but takes the purchase from devices that joined since.
      return (owner == before?.owner ? [] : [move(before?.owner?.customer, owner.customer, cause)])
        + losers.sorted { $0.id < $1.id }.map { move($0, owner.customer, cause) }
    }
    switch claim {
    case .settled, .refused, .postponed: return []
    case .moved(let owner, let previous):
      let isToken = if case .appAccountToken = owner.reason { true } else { false }
      return [move(previous, owner.customer, isToken ? .token : .policy)]
    case .shared(let owner, let customer, let loser):
      return [move(loser ?? owner.customer, customer, loser == nil ? .room : .policy)]
    }
  }
}
