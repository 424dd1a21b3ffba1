import FoundationEssentials
import Subscriptions

/// One thing for the ledger to take in: signed facts about one purchase, and what came with them.
struct LedgerEntry: Sendable {
  /// The app, as the catalog has it; `nil` where it does not.
  var app: App?
  /// The purchase that the facts are about; `nil` for a notification that is about none.
  var originalTransactionID: String?
  /// Signed transactions, all of that purchase.
  var transactions: [TransactionRecord] = []
  /// Signed renewal infos, all of that purchase.
  var renewals: [RenewalRecord] = []
  /// The notification that carried them, to be kept with them in the same commit.
  @Boxed var notification: KeptNotification? = nil
  /// Whether the notification is kept already and shall be processed once more.
  var isReplay = false
  /// The record for `support_actions`, written in the same commit.
  var action: LedgerAction?
  /// Who proves the purchase by them; `nil` where nobody does.
  var claimant: Customer?
  /// Whom a support person gives the purchase to; `nil` where nobody does.
  var transfer: SupportTransfer?
  /// Whether a client sent them, which support sees as `last_validated_at`.
  var isValidation = false
  /// Now.
  var instant: Date

  /// What must not be written by two servers at once: the purchase, or a notification about none.
  var lockName: String? { originalTransactionID ?? notification?.uuid.uuidString }
}

/// Something done by an entry that support should find in `support_actions`.
enum LedgerAction: Sendable {
  /// A person had a kept notification processed again.
  case replay(by: String, reason: String)
  /// The App Store was asked about a renewal that was overdue without news; written down where that repaired the
  /// purchase's row.
  case overdueRenewal
}

/// What became of an entry, as committed.
struct LedgerReceipt: Sendable {
  /// The notification was there already: nothing was written.
  var isDuplicate = false
  /// It contradicts what is known of the purchase (another app or environment): its facts were not taken in.
  var isContradiction = false
  /// Whether any fact in it was news.
  var isNews = false
  /// It is committed, but of all those in the batch somebody has something that cannot be read, so that nobody's
  /// ``holdings`` are there.
  var areHoldingsUnread = false
  /// What happened in the store that was not known before.
  var storeEvents: [StoreEvent] = []
  /// When the purchaser first paid, as was known before; `nil` where only free periods were.
  var previousFirstPaidAt: Date?
  /// When the purchaser first paid, as is known now.
  var firstPaidAt: Date?
  /// The word for the notification's column `outcome`; `nil` where there is no notification.
  var outcome: String?
  /// Whether the notification took effect; else it waits for a replay.
  var isProcessed = true
  /// The purchase as it stood before; `nil` where it was not known.
  @Boxed var previous: StoredSubscription? = nil
  /// The purchase as it stands now; `nil` where no transaction of it is known.
  @Boxed var subscription: StoredSubscription? = nil
  /// What came of the claim.
  var claim: ClaimOutcome = .settled(nil)
  /// Everything of the same app that the one who proved the purchase has, if it is theirs, and else its owner; this
  /// purchase included. `nil` where nobody owns it.
  var holdings: Holdings?
  /// When the app asked nobody for a subscription.
  var freeTime = FreeTime.never
}

extension LedgerEntry {
  /// Whose ``LedgerReceipt/holdings`` go into the receipt.
  func asks(about receipt: LedgerReceipt) -> Customer? {
    guard let stored = receipt.subscription, let owner = stored.owner?.customer else { return nil }
    return claimant.flatMap { stored.customers.contains($0) ? $0 : nil } ?? owner
  }
}

/// A subscription with what its row has beyond the meaning of its facts.
struct StoredSubscription: Sendable {
  @Boxed var subscription: Subscription
  var owner: Ownership?
  /// The last `appAccountToken` that decided the owner.
  var decidedToken: UUID?
  /// Whether it opens anything at all: the catalog knows its product, and a sandbox purchase is a tester's.
  var isCounted: Bool
  /// The devices that have it at once, or may not have it any more, in apps that share purchases.
  var holders: [Holder] = []

  /// Whoever has it: the owner, and those who share it.
  var customers: Set<Customer> {
    var customers = Set(holders.lazy.filter { !$0.isBarred }.map { Customer.device($0.deviceID) })
    if let owner { customers.insert(owner.customer) }
    return customers
  }

  var originalTransactionID: String { subscription.current.originalTransactionID }
  var bundleID: String { subscription.current.bundleID }
}
