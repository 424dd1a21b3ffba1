import Configuration
import Customers
import FoundationEssentials
import Subscriptions

/// The purchases of a batch: as read from the database, and as changed by each entry.
///
/// Several entries of a batch can be about one purchase, so each entry sees the changes of the ones before it.
struct LedgerState {
  /// The periods of free access of each app.
  var freeAccessByApp = FreeAccessByApp()
  /// Notifications of this batch that are stored already.
  var keptNotifications: Set<UUID> = []
  /// Those of them whose customer was erased.
  var erasedNotifications: Set<UUID> = []
  /// Admissions of this batch that do not hold, because another secret is stored.
  var changedAdmissions: Set<DeviceAdmission> = []
  /// Transactions that have a row.
  private var keptTransactions: Set<String> = []
  private var purchases: [String: Purchase] = [:]

  /// Notifications to be written.
  private(set) var newNotifications: [NewNotification] = []
  /// Stored notifications that were processed again.
  private(set) var replayedNotifications: [NewNotification] = []
  /// Changes of ownership.
  private(set) var moves: [OwnershipMove] = []
  /// What entries changed about the purchases of followed apps.
  private(set) var purchaseChanges: [PurchaseChange] = []
  /// Whether an effect follows the purchases of an app.
  var follows: @Sendable (App) -> Bool = { _ in false }

  struct NewNotification {
    var notification: KeptNotification
    var originalTransactionID: String?
    var outcome: String
    var isProcessed: Bool
  }

  struct ChangedSubscription {
    var stored: StoredSubscription
    var isValidation: Bool
    /// The devices that share it and changed, or proved it again.
    var holders: HolderChanges
  }

  fileprivate struct Purchase {
    var facts = SubscriptionFacts()
    var stored: StoredSubscription?
    /// The device in a row from before receiptd. A row that only records an erasure has none.
    var formerDevice: String?
    /// The erasure of a customer whom only notifications that waited had named.
    var formerErasure: PurchaseErasure?
    var newTransactions: [String: TransactionRecord] = [:]
    /// The counted days that the new transactions may change.
    var lateFacts: Set<LateFact> = []
    var newRenewal: RenewalRecord?
    var isChanged = false
    var isValidation = false
    /// The devices that share it, as they are stored.
    var storedHolders: [Holder] = []
    /// The old proof that gives access; `nil` if a notification or an earlier entry confirms the access.
    var oldProof: UnconfirmedProof?
    /// See ``LedgerReceipt/unconfirmedProof``.
    var unconfirmedProof: Date?
    /// The customers whose state may have changed, or who asked.
    var concerned: Set<Customer> = []
  }

  // MARK: Load

  mutating func load(_ fact: TransactionFact) {
    keptTransactions.insert(fact.transactionID)
    purchases[fact.originalTransactionID, default: Purchase()].facts.add(fact)
  }

  mutating func load(_ fact: RenewalFact) {
    purchases[fact.originalTransactionID, default: Purchase()].facts.add(fact)
  }

  /// - Parameter unconfirmedProof: the date of the old proof by which it is known, if the App Store has not answered
  ///   about it.
  mutating func load(_ stored: StoredSubscription, unconfirmedProof: Date? = nil) {
    purchases[stored.originalTransactionID, default: Purchase()].stored = stored
    purchases[stored.originalTransactionID]?.unconfirmedProof = unconfirmedProof
  }

  /// - Parameter formerDevice: the device in a row from before receiptd; empty for none, also in a row that only
  ///   records an erasure.
  mutating func load(formerDevice: String, of originalTransactionID: String) {
    guard !formerDevice.isEmpty else { return }
    purchases[originalTransactionID, default: Purchase()].formerDevice = DeviceID.normalized(formerDevice)
  }

  mutating func load(_ erasure: PurchaseErasure?, of originalTransactionID: String) {
    guard let erasure else { return }
    purchases[originalTransactionID, default: Purchase()].formerErasure = erasure
  }

  mutating func load(_ holder: Holder, of originalTransactionID: String) {
    guard purchases[originalTransactionID]?.stored != nil else { return }
    purchases[originalTransactionID]?.stored?.holders.append(holder)
    purchases[originalTransactionID]?.storedHolders.append(holder)
  }

  // MARK: Record

  /// Records one entry.
  mutating func record(_ entry: LedgerEntry) -> LedgerReceipt {
    if let notification = entry.notification, !entry.isReplay,
      keptNotifications.contains(notification.uuid)
    {
      return LedgerReceipt(isDuplicate: true)
    }
    // The replay read the payload before the erasure.
    if let notification = entry.notification, erasedNotifications.contains(notification.uuid) {
      return LedgerReceipt(isDuplicate: true, outcome: "erased")
    }
    if !changedAdmissions.isEmpty, let admission = entry.claim?.admission,
      changedAdmissions.contains(admission)
    {
      return LedgerReceipt(isSecretChanged: true)
    }
    var receipt = LedgerReceipt()
    // Without an app there is no catalog, so the purchase stays as it is.
    if let id = entry.originalTransactionID, let app = entry.app {
      receipt = purchases[id, default: Purchase()].record(
        entry, freeAccess: freeAccessByApp[app], isFollowed: follows(app), moves: &moves,
        changes: &purchaseChanges)
    }
    if let notification = entry.notification {
      let outcome = outcome(of: notification, entry, receipt)
      receipt.outcome = outcome
      receipt.isProcessed = notification.pendingReason == nil && !receipt.isContradiction
      let row = NewNotification(
        notification: notification, originalTransactionID: entry.originalTransactionID,
        outcome: outcome, isProcessed: receipt.isProcessed)
      if entry.isReplay {
        replayedNotifications.append(row)
      } else {
        keptNotifications.insert(notification.uuid)
        newNotifications.append(row)
      }
    }
    return receipt
  }

  private func outcome(
    of notification: KeptNotification, _ entry: LedgerEntry, _ receipt: LedgerReceipt
  ) -> String {
    if let pendingReason = notification.pendingReason { return pendingReason.rawValue }
    if receipt.isContradiction { return KeptNotification.PendingReason.failed.rawValue }
    if entry.transactions.isEmpty && entry.renewals.isEmpty { return "recorded" }
    return receipt.isNews ? "applied" : "unchanged"
  }

  // MARK: Rows to write

  // Sorted, because rows are locked in the order in which they are written.

  /// The transactions to write: those that have a row, and those that have none.
  var newTransactions: (known: [TransactionRecord], unknown: [TransactionRecord]) {
    let records = purchases.values.flatMap { $0.newTransactions.values }.ordered(by: \.fact.transactionID)
    let known = records.filter { keptTransactions.contains($0.fact.transactionID) }
    if known.isEmpty { return ([], records) }
    return (known, records.filter { !keptTransactions.contains($0.fact.transactionID) })
  }

  /// The counted days that the entries may change.
  var lateFacts: [LateFact] {
    var facts = Set(newNotifications.compactMap { LateFact($0.notification) })
    for purchase in purchases.values { facts.formUnion(purchase.lateFacts) }
    return Array(facts)
  }

  var newRenewals: [RenewalRecord] {
    purchases.values.compactMap(\.newRenewal).ordered(by: \.fact.originalTransactionID)
  }

  var changedSubscriptions: [ChangedSubscription] {
    purchases.values
      .compactMap { purchase in
        guard purchase.isChanged, let stored = purchase.stored else { return nil }
        return ChangedSubscription(
          stored: stored, isValidation: purchase.isValidation,
          holders: HolderChanges(of: stored, from: purchase.storedHolders))
      }
      .ordered(by: \.stored.originalTransactionID)
  }

  /// The purchases that give access by an old proof of this batch.
  var oldProofs: [(originalTransactionID: String, proof: UnconfirmedProof)] {
    purchases.compactMap { id, purchase in purchase.oldProof.map { (id, $0) } }.sorted { $0.0 < $1.0 }
  }

  /// The changed purchases of erased customers that have no owner now. Personal data is removed from their facts.
  var erasedPurchases: [String] {
    purchases.filter { _, purchase in
      purchase.isChanged && purchase.stored?.erasure != nil && purchase.stored?.owner == nil
    }.keys.sorted()
  }

  /// The purchases of this batch that a customer has, and for which the App Store goes on signing an erased customer's
  /// token.
  var purchasesWithErasedTokens: [String] {
    purchases.filter { _, purchase in
      purchase.newRenewal != nil && purchase.stored?.erasure?.tokenDigests.isEmpty == false
        && purchase.stored?.owner != nil
    }.keys.sorted()
  }

  /// The customers who have or had a purchase that changed, and those who asked about theirs, each with its app.
  var customerChanges: Set<CustomerChange> {
    purchases.values.reduce(into: []) { changes, purchase in
      guard purchase.isChanged, let stored = purchase.stored else { return }
      for customer in purchase.concerned {
        changes.insert(CustomerChange(bundleID: stored.bundleID, customer: customer))
      }
    }
  }
}

extension Array {
  /// The elements in the order of their keys. Indices are sorted in their place, because the elements are large.
  fileprivate func ordered(by key: (Element) -> String) -> [Element] {
    let keys = map(key)
    return indices.sorted { keys[$0] < keys[$1] }.map { self[$0] }
  }
}

extension LedgerState.Purchase {
  fileprivate var erasure: PurchaseErasure? { stored?.erasure ?? formerErasure }

  fileprivate mutating func record(
    _ entry: LedgerEntry, freeAccess: FreeAccess, isFollowed: Bool, moves: inout [OwnershipMove],
    changes: inout [PurchaseChange]
  ) -> LedgerReceipt {
    var receipt = LedgerReceipt()
    receipt.freeAccess = freeAccess
    guard agrees(with: entry) else {
      receipt.isContradiction = true
      return receipt
    }
    // Copied only where they are needed.
    let formerFacts = isFollowed || entry.hasOldProofs ? facts : nil
    receipt.previousFirstPaidAt = facts.firstPaidAt
    for record in entry.transactions
    where add(erasure?.stripped(record) ?? record, at: entry.instant, &receipt) {
      receipt.isNews = true
    }
    receipt.firstPaidAt = facts.firstPaidAt
    for record in entry.renewals where facts.add(record.fact) {
      newRenewal = record
      receipt.isNews = true
    }
    guard let subscription = facts.subscription(under: entry.app, freeAccess: freeAccess) else {
      return receipt
    }

    if let proof = entry.oldProof(of: subscription, facts, after: formerFacts, stored?.subscription) {
      oldProof = oldProof?.with(proof) ?? proof
      unconfirmedProof = oldProof?.signedAt
    }
    receipt.unconfirmedProof = unconfirmedProof
    receipt.previous = stored
    let before = stored
    let former = formerOwner(in: entry.app)?.customer
    let claim = settle(entry, subscription)
    receipt.claim = claim.outcome
    let token = entry.app?.customer == .user ? subscription.customerToken : nil
    var now = StoredSubscription(
      subscription: subscription, owner: receipt.claim.owner,
      decidedToken: token ?? stored?.decidedToken,
      isCounted: entry.app?.counts(
        subscription, for: receipt.claim.owner?.customer, at: entry.instant) ?? false,
      holders: claim.holders, erasure: erasure, moves: stored?.moves, unprovenMoves: stored?.unprovenMoves,
      isUnconfirmed: unconfirmedProof != nil || stored?.isUnconfirmed ?? false)
    if claim.isCounted {
      if entry.isProven {
        now.moves = now.moves.counting(moveAt: entry.instant)
      } else {
        now.unprovenMoves = now.unprovenMoves.counting(moveAt: entry.instant)
      }
    }
    let newMoves = OwnershipMove.moves(to: now, from: before, by: entry, claim.outcome)
    moves += newMoves
    if isFollowed, let formerFacts, let app = entry.app {
      changes.append(
        PurchaseChange(
          app: app, entry: entry, before: formerFacts, after: facts, stored: now, moves: newMoves))
    }
    stored = now
    isChanged = true
    isValidation = isValidation || entry.isValidation
    receipt.subscription = now
    // A proof that changes nothing reads the records of the customer who asks, not those of all devices that share the
    // purchase.
    let isRepeated =
      entry.isValidation && !receipt.isNews && now.isCounted == before?.isCounted
      && now.owner == before?.owner
      && now.customers == before?.customers && subscription.hasSameAccess(as: before?.subscription)
    if !isRepeated {
      concerned.formUnion(now.customers.union(before?.customers ?? []).union([former].compactMap(\.self)))
    } else if let asked = entry.asks(about: receipt) {
      concerned.insert(asked)
    }
    return receipt
  }

  /// - Returns: whether the record told something new.
  private mutating func add(
    _ record: TransactionRecord, at instant: Date, _ receipt: inout LedgerReceipt
  ) -> Bool {
    let id = record.fact.transactionID
    let known = facts.transactions[id]
    guard facts.add(record.fact), let fact = facts.transactions[id] else { return false }
    var written = record
    if let known, !record.fact.supersedes(known) {
      // An older signature: only its account token is new.
      if let newer = newTransactions[id] { written = newer } else { written.keepsOtherClaims = true }
    } else {
      receipt.storeEvents += StoreEvent.events(of: record, after: known, in: facts)
    }
    written.fact = fact
    newTransactions[id] = written
    if let late = LateFact(fact, after: known, at: instant) { lateFacts.insert(late) }
    return true
  }

  /// Whether the entry is about the app and the environment of the stored purchase. The App Store's ids are unique, so
  /// anything else is an error that must not mix two purchases.
  private func agrees(with entry: LedgerEntry) -> Bool {
    let environment =
      facts.transactions.values.first?.environment ?? facts.renewal?.environment
      ?? entry.transactions.first?.fact.environment ?? entry.renewals.first?.fact.environment
    guard let app = entry.app, let environment else { return true }
    func agrees(_ fact: TransactionFact) -> Bool {
      fact.bundleID == app.bundleID && fact.environment == environment
    }
    return facts.transactions.values.allSatisfy(agrees)
      && facts.renewal.map { $0.environment == environment } ?? true
      && entry.transactions.allSatisfy { agrees($0.fact) }
      && entry.renewals.allSatisfy { $0.fact.environment == environment }
  }

  /// The owner that the app's former server named. It stays until a proof or support decides otherwise.
  private func formerOwner(in app: App?) -> Ownership? {
    guard stored == nil, app?.customer == .device, let formerDevice else { return nil }
    return Ownership(customer: .device(formerDevice), reason: .firstClaim)
  }

  private func settle(_ entry: LedgerEntry, _ subscription: Subscription) -> SharedClaim {
    let owner = stored?.owner ?? formerOwner(in: entry.app)
    let holders = stored?.holders ?? []
    let claimant = claimant(of: entry, owner, subscription)
    let isProven = entry.isProven
    let moves = isProven ? stored?.moves : stored?.unprovenMoves
    let mayJoin = isProven || entry.claim?.strength == .oldBuild
    guard let app = entry.app else { return SharedClaim(outcome: .settled(owner), holders: holders) }
    if let transfer = entry.transfer {
      return transfer.claim(owner: owner, holders: holders, in: app, at: entry.instant)
    }
    if app.sharesPurchases {
      return DeviceSharing(
        limit: app.devicesPerPurchase, mayJoin: mayJoin, isProven: isProven,
        keepsNamed: [.accept, .observe].contains(app.clientWrites), moves: moves,
        mostMoves: app.devicesPerPurchase, at: entry.instant
      ).claim(by: claimant, owner: owner, holders: holders)
    }
    let isActive =
      app.counts(subscription, for: owner?.customer, at: entry.instant)
      && subscription.phase(at: entry.instant).status.grantsAccess
    // The transfer policy is for users. A device that may join replaces the only device that has the purchase.
    let devicePolicy: TransferPolicy = mayJoin ? .transfer : .keep
    let outcome = decideOwner(
      claimant: claimant, owner: owner, token: subscription.customerToken,
      decidedToken: beginsAnew(subscription) ? nil : stored?.decidedToken, kind: app.customer,
      policy: app.customer == .device ? devicePolicy : app.transferPolicy, isActive: isActive,
      isProven: isProven,
      mayDisplace: moves.allowsMove(limit: app.devicesPerPurchase, at: entry.instant))
    return SharedClaim(outcome: outcome, holders: holders)
  }

  /// A period that begins less than this after the end of the one before is its renewal, in seconds.
  private static let shortestLapse: TimeInterval = 60

  /// Whether the app's policy had moved the purchase, and it had ended before a period with a token began. The token
  /// decides about the owner of that period, also if it is the token of the last decision.
  ///
  /// A renewal begins where the period before ends, and changes no owner. If that period is unknown, or the charge
  /// succeeded later, the renewal looks like a purchase after an end, and its token decides.
  private func beginsAnew(_ subscription: Subscription) -> Bool {
    guard let stored, stored.owner?.reason == .transfer else { return false }
    let begin = subscription.current.purchaseDate
    return subscription.current.appAccountToken != nil && begin > stored.subscription.current.purchaseDate
      && !stored.subscription.phase(at: begin - Self.shortestLapse).status.grantsAccess
  }
}

extension Subscription {
  /// Whether the stored row has the same product, tier and phases. The configuration may have changed since it was
  /// written.
  fileprivate func hasSameAccess(as stored: Subscription?) -> Bool {
    stored.map { $0.productID == productID && $0.tier == tier && $0.phases == phases } ?? false
  }
}

extension LedgerState.Purchase {
  /// The claimant whose claim counts; `nil` if the evidence gives no right to the purchase as it is.
  fileprivate func claimant(
    of entry: LedgerEntry, _ owner: Ownership?, _ subscription: Subscription
  ) -> Customer? {
    let isKnown =
      owner?.customer == entry.claimant
      || stored?.holders.contains { Customer.device($0.deviceID) == entry.claimant } ?? false
    let isTaken = owner != nil || entry.app?.customer == .user && subscription.customerToken != nil
    // Others may know the transaction's id. So a purchase whose owner was erased needs a signed proof, until another
    // customer owns it.
    let isErased = owner == nil && erasure?.ownerErasedAt != nil
    return switch entry.claim?.strength {
    case nil, .foreign: nil
    case .proof: entry.claimant
    case .oldBuild: isKnown || !isErased ? entry.claimant : nil
    case .name: isKnown || !isTaken && !isErased ? entry.claimant : nil
    case .nothing: isKnown ? entry.claimant : nil
    }
  }
}

extension ClaimOutcome {
  /// The owner after the claim.
  package var owner: Ownership? {
    switch self {
    case .settled(let owner), .refused(let owner): owner
    case .moved(let owner, _), .shared(let owner, _, _), .postponed(let owner): owner
    }
  }
}

extension LedgerEntry {
  /// The receipt that the entry would get, without recording it.
  /// - Parameter stored: the purchase of the entry; `nil` if it is not known.
  package func foreseen(after stored: StoredSubscription?) -> LedgerReceipt {
    var state = LedgerState()
    if let stored { state.load(stored) }
    return state.record(self)
  }
}
