import Actions
import AppStore
import Configuration
import Customers
import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// A unit of work for the ledger: signed facts about one purchase, and why they come.
package struct LedgerEntry: Sendable {
  /// The app from the catalog; `nil` if it is not configured.
  package var app: App?
  /// The purchase that the facts are about; `nil` for a notification without one.
  package var originalTransactionID: String?
  /// Signed transactions, all of that purchase.
  package var transactions: [TransactionRecord] = []
  /// Signed renewal infos, all of that purchase.
  package var renewals: [RenewalRecord] = []
  /// Why the facts come.
  package var cause: Cause
  /// When the entry was made, by the service's clock.
  package var instant: Date

  package init(
    app: App? = nil, originalTransactionID: String? = nil, transactions: [TransactionRecord] = [],
    renewals: [RenewalRecord] = [], because cause: Cause, instant: Date
  ) {
    self.app = app
    self.originalTransactionID = originalTransactionID
    self.transactions = transactions
    self.renewals = renewals
    self.cause = cause
    self.instant = instant
  }

  /// Why facts come to the ledger, with what this kind of entry has beside them.
  package enum Cause: Sendable {
    /// The App Store sent a notification, which is stored in the same commit.
    case notification(KeptNotification, RefundRequest? = nil)
    /// A stored notification is processed again, for a person or by receiptd itself.
    case replay(KeptNotification, RefundRequest?, by: SupportAuthor?)
    /// A client sent a proof, which sets `last_validated_at`. Without a claim, no customer gets the purchase.
    case proof(Claim?)
    /// A table or a file of the app names the purchase as a customer's.
    case adoption(Claim?)
    /// The App Store answered a question.
    case answer(Question)
    /// Support gives the purchase to another customer.
    case transfer(SupportTransfer)
    /// Time has passed: there are no new facts.
    case time
  }

  /// What receiptd asked the App Store about.
  package enum Question: Sendable {
    /// A purchase whose renewal is overdue; recorded in `support_actions` where the answer changed the purchase's row.
    case overdueRenewal
    /// A purchase that only an old proof told of; recorded likewise.
    case oldProof
    /// An order that support looked up; recorded where the answer changed something. The changes are those beside the
    /// purchase's row.
    case lookup(by: SupportActor, changes: [FieldChange])
    /// All purchases of a customer, for `refresh`, which makes its own record.
    case refresh
  }

  /// The notification that carried the facts; `nil` for none.
  package var notification: KeptNotification? {
    switch cause {
    case .notification(let notification, _), .replay(let notification, _, _): notification
    default: nil
    }
  }

  /// The App Store's question about a refund, to be answered later; `nil` for none.
  package var refundRequest: RefundRequest? {
    switch cause {
    case .notification(_, let request), .replay(_, let request, _): request
    default: nil
    }
  }

  /// Whether the notification is stored already and is processed again.
  var isReplay: Bool { if case .replay = cause { true } else { false } }

  /// Whether a client sent the facts.
  package var isValidation: Bool { if case .proof = cause { true } else { false } }

  /// The transfer that support has ordered; `nil` for none.
  package var transfer: SupportTransfer? { if case .transfer(let transfer) = cause { transfer } else { nil } }

  /// `nil` for none.
  package var claim: Claim? {
    switch cause {
    case .proof(let claim), .adoption(let claim): claim
    default: nil
    }
  }

  /// Whether the cause may take a purchase from a customer: all but a claim with a bare transaction id, which shows no
  /// possession.
  var isProven: Bool { claim?.strength ?? .proof == .proof }

  /// The customer who claims the purchase; `nil` for none.
  package var claimant: Customer? { claim.flatMap { $0.strength == .foreign ? nil : $0.customer } }

  /// The name of the lock that serializes writes: the purchase's id, or the notification's uuid if it has no purchase.
  package var lockName: String? { originalTransactionID ?? notification?.uuid.uuidString }

  /// The locks that this entry has in common with others: a client can send any number of purchases of one customer at
  /// once, and one purchase for any number of customers.
  var lockKeys: [LedgerLockKey] {
    [lockName.map(LedgerLockKey.purchase), claimant.map(LedgerLockKey.customer)].compactMap(\.self)
  }
}

/// A lock of the ledger that entries have in common.
enum LedgerLockKey: Sendable, Hashable {
  case purchase(String)
  case customer(Customer)
}

/// A customer's claim to a purchase.
package struct Claim: Sendable {
  package var customer: Customer
  package var strength: ClaimStrength
  /// How the request was admitted, if the customer is a device.
  package var admission: DeviceAdmission?

  package init(by customer: Customer, _ strength: ClaimStrength = .proof, admission: DeviceAdmission? = nil) {
    self.customer = customer
    self.strength = strength
    self.admission = admission
  }
}

/// The right to a purchase that the evidence of a claimant gives.
package enum ClaimStrength: Sendable, Hashable {
  /// The claimant shows possession: the app's rules decide.
  case proof
  /// The claimant is an old build that names the transaction's id. It gets a purchase without an owner, and a device
  /// joins one of other devices.
  case oldBuild
  /// The claimant, or a table or a file, names the id. It gets a purchase that has no owner, and for which Apple's
  /// `appAccountToken` names no user.
  case name
  /// The claimant names the id, and the app refuses old builds: it gets nothing that it does not have.
  case nothing
  /// The claimant is shown to belong to another Apple Account: it gets nothing, also where it had the purchase.
  case foreign
}

/// The result of an entry, as committed.
package struct LedgerReceipt: Sendable {
  /// The notification was stored already: nothing was written.
  package var isDuplicate = false
  /// The entry contradicts the stored purchase (another app or environment): its facts were not recorded.
  package var isContradiction = false
  /// The stored secret of the device is another one than that of the entry's admission: nothing was written.
  var isSecretChanged = false
  /// Whether any fact was new.
  package var isNews = false
  /// The entry is committed, but a row of a customer of this batch cannot be read, so ``customerRecords`` is missing.
  var areCustomerRecordsUnread = false
  /// Events of the store that were not known before.
  var storeEvents: [StoreEvent] = []
  /// The first payment that was known before; `nil` for none.
  var previousFirstPaidAt: Date?
  /// The first payment that is known now.
  var firstPaidAt: Date?
  /// When the App Store signed the old proof, of this entry or an earlier one, by which the purchase gives access, if
  /// it has not answered about it; see ``OldProofs``.
  package var unconfirmedProof: Date?
  /// The word for the notification's column `outcome`; `nil` where there is no notification.
  package var outcome: String?
  /// Whether the notification took effect; otherwise it waits for a replay.
  package var isProcessed = true
  /// The purchase before; `nil` where it was not known.
  package var previous: StoredSubscription? = nil
  /// The purchase now; `nil` where no transaction of it is known.
  package var subscription: StoredSubscription? = nil
  /// The result of the claim.
  package var claim: ClaimOutcome = .settled(nil)
  /// The app's records, this purchase included, of the claimant if the purchase is theirs, otherwise of the owner.
  /// `nil` without an owner.
  package var customerRecords: CustomerRecords?
  /// Whether another device named that customer as its child's; `nil` if that was not read.
  package var hasParent: Bool?
  /// The app's periods of free access.
  package var freeAccess = FreeAccess.never
}

extension LedgerEntry {
  /// The customer whose ``LedgerReceipt/customerRecords`` go into the receipt.
  package func asks(about receipt: LedgerReceipt) -> Customer? {
    guard let stored = receipt.subscription, let owner = stored.owner?.customer else { return nil }
    return claimant.flatMap { stored.customers.contains($0) ? $0 : nil } ?? owner
  }
}

/// Makes ledger entries of the signed data in responses of the App Store Server API.
package struct SignedPurchases: Sendable {
  package let verifier: SignedDataVerifier
  let logger: Logger

  package init(verifier: SignedDataVerifier, logger: Logger) {
    self.verifier = verifier
    self.logger = logger
  }

  /// The entry of a subscription's latest transaction and renewal info; `nil` if the transaction does not verify.
  package func entry(
    of item: LastTransactionsItem, in app: App, to question: LedgerEntry.Question, at instant: Date
  ) -> LedgerEntry? {
    guard let jws = item.signedTransactionInfo, let transaction = transaction(jws, in: app) else {
      return nil
    }
    var entry = LedgerEntry(
      app: app, originalTransactionID: transaction.fact.originalTransactionID,
      transactions: [transaction], because: .answer(question), instant: instant)
    if let jws = item.signedRenewalInfo, let signed = try? verifier.renewalInfo(jws),
      (try? app.identity.check(signed.payload)) != nil, let record = try? RenewalRecord(signed),
      record.fact.originalTransactionID == entry.originalTransactionID
    {
      entry.renewals = [record]
    }
    return entry
  }

  /// The record of a signed transaction; `nil` if it does not verify.
  package func transaction(_ jws: String, in app: App) -> TransactionRecord? {
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
package struct OwnershipMove: Sendable {
  package var subscription: Subscription
  /// The customer who had it; `nil` for none. Of a shared purchase: the owner, who keeps it.
  package var previous: Customer?
  /// The customer that has the purchase now.
  package var customer: Customer
  package var cause: Cause
  package var children: Children

  /// What becomes of the children's devices of a device that lost the purchase to another.
  package enum Children: Sendable {
    case stay
    /// A device that proved it took the place of one that had proved it, and gets that one's.
    case follow
    /// Support transferred it, and the device gets those that it had before they moved with it.
    case comeBack
  }

  package enum Cause: Sendable {
    /// Support transferred it.
    case support(SupportAuthor)
    /// The App Store signed another `appAccountToken`.
    case token
    /// Another customer proved it; or another device, beyond the limit of devices.
    case policy
    /// Another device proved it, within the limit of devices.
    case joined
  }

  /// The moves that an entry made: one for each customer who lost the purchase, or one for its first owner.
  package static func moves(
    to now: StoredSubscription, from before: StoredSubscription?, by entry: LedgerEntry, _ claim: ClaimOutcome
  ) -> [OwnershipMove] {
    func move(
      _ previous: Customer?, _ customer: Customer, _ cause: Cause, _ children: Children = .stay
    ) -> OwnershipMove {
      OwnershipMove(
        subscription: now.subscription, previous: previous, customer: customer, cause: cause,
        children: children)
    }
    if let transfer = entry.transfer {
      guard let owner = now.owner else { return [] }
      let losers = (before?.customers ?? []).subtracting(now.customers).subtracting(
        [before?.owner?.customer].compactMap(\.self))
      let cause = Cause.support(transfer.author)
      // Repeating a transfer changes no owner, but takes the purchase from devices that joined since.
      return (owner == before?.owner ? [] : [move(before?.owner?.customer, owner.customer, cause, .comeBack)])
        + losers.sorted { $0.id < $1.id }.map { move($0, owner.customer, cause, .comeBack) }
    }
    let isProven = entry.isProven
    switch claim {
    case .settled, .refused(owner: nil): return []
    case .refused(let owner?), .postponed(let owner):
      // The claim came with a newly signed token, which moved the purchase before it was refused.
      guard let previous = before?.owner?.customer, previous != owner.customer else { return [] }
      return [move(previous, owner.customer, .token)]
    case .moved(let owner, let previous):
      let isToken = if case .appAccountToken = owner.reason { true } else { false }
      let follows = isProven && before?.owner?.reason != .unprovenClaim
      return [move(previous, owner.customer, isToken ? .token : .policy, follows ? .follow : .stay)]
    case .shared(let owner, let customer, let loser):
      let follows =
        isProven && before?.holders.contains { .device($0.deviceID) == loser && $0.isProven } ?? false
      return [
        move(
          loser ?? owner.customer, customer, loser == nil ? .joined : .policy, follows ? .follow : .stay)
      ]
    }
  }
}

/// A transfer of a purchase to another customer, by support.
package struct SupportTransfer: Sendable {
  package var customer: Customer
  package var author: SupportAuthor
  /// Refuses a customer that no record contains. The ledger calls it under the customer's lock: the customer may have
  /// been erased since support named it.
  package var check: @Sendable (PostgresConnection) async throws -> Void

  package init(
    customer: Customer, author: SupportAuthor,
    check: @escaping @Sendable (PostgresConnection) async throws -> Void
  ) {
    self.customer = customer
    self.author = author
    self.check = check
  }

  /// The owner and the devices after the transfer: in an app that shares purchases, no other device keeps it.
  package func claim(owner: Ownership?, holders: [Holder], in app: App, at instant: Date) -> SharedClaim {
    let device = app.sharesPurchases ? customer.deviceID : nil
    return SharedClaim(
      outcome: .settled(ownership(after: owner)),
      holders: device.map { holders.given(to: $0, from: owner?.customer, at: instant) } ?? holders)
  }

  /// The purchase's ownership after the transfer.
  /// - Parameter owner: the ownership before.
  private func ownership(after owner: Ownership?) -> Ownership {
    // A repeated transfer keeps the original previous owner.
    if let owner, owner.customer == customer, case .support = owner.reason { return owner }
    let previous = owner?.customer
    return Ownership(
      customer: customer, reason: .support(takenFrom: previous == customer ? nil : previous))
  }
}
