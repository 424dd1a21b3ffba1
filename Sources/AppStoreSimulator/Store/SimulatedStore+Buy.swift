import AppStore
import FoundationEssentials

extension SimulatedStore {
  /// A customer buys: `SUBSCRIBED` (`INITIAL_BUY`, or `RESUBSCRIBE` where they had a subscription of the
  /// group before, which goes on under its original transaction id) or `ONE_TIME_CHARGE`.
  public mutating func buy(
    _ request: PurchaseRequest, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let product = try product(request.productID, of: request.bundleID)
    if request.ownership == .familyShared, !product.isFamilyShareable {
      throw .notFamilyShareable(product.id)
    }
    let accountID = request.accountID ?? identifiers.accountID()
    let purchaseDate = (request.purchaseDate ?? now).wholeMilliseconds
    let download = download(
      of: request.bundleID, by: accountID, version: try app(request.bundleID).version, at: purchaseDate)

    var transaction = newTransaction(of: product, in: request.bundleID, at: purchaseDate)
    transaction.inAppOwnershipType = request.ownership
    transaction.appTransactionId = download.appTransactionID
    // Apple gives family members no token: the app set it for the one who bought.
    if request.ownership == .purchased { transaction.appAccountToken = request.appAccountToken }
    if product.period == nil { return try buyOnce(transaction, quantity: request.quantity, at: now) }
    var outcome = try subscribe(transaction, to: product, by: request, at: now)
    outcome.others = try tellFamily(of: outcome.originalTransactionID, outcome.notification, at: now)
    return outcome
  }

  /// A transaction with new ids, the product's price and the storefront of the United States.
  mutating func newTransaction(
    of product: StoreProduct, in bundleID: String, at purchaseDate: Date
  ) -> TransactionInfo {
    let id = identifiers.transactionID()
    var transaction = TransactionInfo(
      transactionId: id, originalTransactionId: id, bundleId: bundleID, productId: product.id,
      purchaseDate: purchaseDate, signedDate: purchaseDate, environment: environment)
    transaction.type = product.type
    transaction.inAppOwnershipType = .purchased
    transaction.quantity = 1
    transaction.subscriptionGroupIdentifier = product.group
    transaction.transactionReason = .purchase
    transaction.originalPurchaseDate = purchaseDate
    transaction.price = product.price
    transaction.currency = product.currency
    transaction.storefront = "USA"
    transaction.storefrontId = "143441"
    if product.period != nil { transaction.webOrderLineItemId = identifiers.orderLineID() }
    return transaction
  }

  mutating func buyOnce(
    _ purchase: TransactionInfo, quantity: Int = 1, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    if purchase.type == .nonConsumable,
      let owned = bought(by: purchase.appTransactionId).first(where: {
        transactions[$0]?.productId == purchase.productId && transactions[$0]?.revocationDate == nil
      })
    {
      throw .alreadyOwned(transactionID: owned)
    }
    var transaction = purchase
    if purchase.type == .consumable { transaction.quantity = Int32(clamping: quantity) }
    record(transaction)
    return try notify(.oneTimeCharge, about: transaction.transactionId, at: now)
  }

  private mutating func subscribe(
    _ purchase: TransactionInfo, to product: StoreProduct, by request: PurchaseRequest, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let earlier = try earlierSubscription(like: purchase, at: now)
    if let offer = request.offer {
      let isEligible =
        switch offer.type {
        case .introductoryOffer: earlier == nil
        case .winBackOffer: earlier != nil
        default: true
        }
      guard isEligible else { throw .notEligible(offer.type) }
    }
    var transaction = purchase
    if let earlier { transaction.continues(try current(of: earlier), lastSigned: lastSigned) }
    setFirstPeriod(of: &transaction, product: product, offer: request.offer)
    record(transaction)

    var recentStart = transaction.purchaseDate
    if let earlier, let end = try current(of: earlier).expiresDate,
      transaction.purchaseDate < timeScale.date(end, adding: StorePeriod(60, .day))
    {
      recentStart = earlier.recentStart
    }
    subscriptions[transaction.originalTransactionId] = StoreSubscription(
      originalTransactionID: transaction.originalTransactionId, bundleID: transaction.bundleId,
      transactionIDs: (earlier?.transactionIDs ?? []) + [transaction.transactionId],
      recentStart: recentStart, renewsAs: product.id, autoRenews: true, billing: .settled)
    return try notify(
      request.announcesOffer && request.offer != nil ? .offerRedeemed : .subscribed,
      earlier == nil ? .initialBuy : .resubscribe, about: transaction.transactionId, at: now)
  }

  /// The subscription of the group that the customer had before in the same way, bought or shared.
  ///
  /// - Throws: ``StoreRefusal/alreadySubscribed(originalTransactionID:)`` where it has not ended.
  func earlierSubscription(
    like purchase: TransactionInfo, at now: Date
  ) throws(StoreRefusal) -> StoreSubscription? {
    let earlier = bought(by: purchase.appTransactionId)
      .first {
        transactions[$0]?.subscriptionGroupIdentifier == purchase.subscriptionGroupIdentifier
          && transactions[$0]?.inAppOwnershipType == purchase.inAppOwnershipType
      }
      .flatMap { subscriptions[$0] }
    if let earlier, [.active, .billingGracePeriod].contains(try status(of: earlier, at: now)) {
      throw .alreadySubscribed(originalTransactionID: earlier.originalTransactionID)
    }
    return earlier
  }

  private func bought(by appTransactionID: String?) -> [String] {
    appTransactionID.flatMap { purchases[$0] } ?? []
  }

  mutating func record(_ transaction: TransactionInfo) {
    transactions[transaction.transactionId] = transaction
    guard let customer = transaction.appTransactionId,
      transaction.transactionId == transaction.originalTransactionId
    else { return }
    purchases[customer, default: []].append(transaction.transactionId)
  }

  /// Sets when the first period ends and what it costs, by the offer if there is one.
  func setFirstPeriod(
    of transaction: inout TransactionInfo, product: StoreProduct, offer: StoreOffer?
  ) {
    let period = offer?.period ?? product.period
    transaction.expiresDate = period.map { timeScale.date(transaction.purchaseDate, adding: $0) }
    if let offer { transaction.apply(offer) }
  }

  /// What the account has of the app, got at `date` if it is new.
  mutating func download(
    of bundleID: String, by accountID: String, version: String, at date: Date
  ) -> StoreAccount.Download {
    if let download = accounts[accountID]?.downloads[bundleID] { return download }
    let download = StoreAccount.Download(
      appTransactionID: identifiers.appTransactionID(), originalPurchaseDate: date,
      originalVersion: version)
    accounts[accountID, default: StoreAccount()].downloads[bundleID] = download
    return download
  }

  /// The app transaction of an account, which gets the app now if it has not got it yet.
  ///
  /// - Parameters:
  ///   - accountID: nil for a customer who was never seen before.
  ///   - originalPurchaseDate, originalVersion: when the customer first got the app, and which version;
  ///     only for an account that has not got it yet.
  public mutating func appTransaction(
    of bundleID: String, accountID: String? = nil, originalPurchaseDate: Date? = nil,
    originalVersion: String? = nil, at now: Date
  ) throws(StoreRefusal) -> AppTransaction {
    let app = try app(bundleID)
    let download = download(
      of: bundleID, by: accountID ?? identifiers.accountID(),
      version: originalVersion ?? app.version, at: (originalPurchaseDate ?? now).wholeMilliseconds)
    var transaction = AppTransaction(
      bundleId: bundleID, receiptType: environment, receiptCreationDate: signingDate(at: now))
    if environment == .production { transaction.appAppleId = app.appAppleID }
    transaction.applicationVersion = app.version
    transaction.originalPurchaseDate = download.originalPurchaseDate
    transaction.originalApplicationVersion = download.originalVersion
    transaction.originalPlatform = .iOS
    transaction.appTransactionId = download.appTransactionID
    // Only the device that has the hashed identifier can check these two; any well-formed value will do.
    transaction.deviceVerification = identifiers.deviceVerification()
    transaction.deviceVerificationNonce = identifiers.uuid()
    return transaction
  }
}

extension TransactionInfo {
  /// Sets what the period costs by the offer.
  mutating func apply(_ offer: StoreOffer) {
    price = offer.price
    offerType = offer.type
    offerIdentifier = offer.identifier
    offerDiscountType = offer.discountType
    offerPeriod = offer.period.text
  }

  /// Makes this the transaction that comes after `previous` in a subscription.
  ///
  /// Purchase dates go up, because the latest one tells which transaction is current. One purchase is dated earlier
  /// than `previous`: the one that replaces a renewal which was charged ahead and has not begun.
  /// - Parameter lastSigned: the last `signedDate` of the store; such a purchase is made after it.
  mutating func continues(_ previous: TransactionInfo, lastSigned: Date) {
    originalTransactionId = previous.originalTransactionId
    originalPurchaseDate = previous.originalPurchaseDate
    let boughtNow = max(purchaseDate, lastSigned + 0.001)
    let replacesChargedAhead =
      transactionReason == .purchase && previous.transactionReason == .renewal
      && previous.purchaseDate > boughtNow
    purchaseDate =
      (replacesChargedAhead ? boughtNow : max(purchaseDate, previous.purchaseDate + 0.001)).wholeMilliseconds
  }
}
