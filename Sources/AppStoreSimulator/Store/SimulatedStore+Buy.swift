import AppStore
import Foundation

extension SimulatedStore {
  /// Buys a product: `SUBSCRIBED` or `ONE_TIME_CHARGE`. The subtype is `INITIAL_BUY`, or `RESUBSCRIBE` after an earlier
  /// subscription of the group, which continues under its original transaction id.
  public mutating func buy(
    _ request: PurchaseRequest, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let product = try product(request.productID, of: request.bundleID)
    if request.ownership == .familyShared, !product.isFamilyShareable {
      throw .notFamilyShareable(product.id)
    }
    let accountID = request.accountID ?? identifiers.accountID()
    let purchaseDate = (request.purchaseDate ?? now).wholeMilliseconds
    let download = download(of: request.bundleID, by: accountID, at: purchaseDate)

    var transaction = newTransaction(of: product, in: request.bundleID, at: purchaseDate)
    if let id = request.transactionID {
      guard transactions[id] == nil else { throw .takenTransactionID(id) }
      (transaction.transactionId, transaction.originalTransactionId) = (id, id)
    }
    transaction.inAppOwnershipType = request.ownership
    transaction.appTransactionId = download.appTransactionID
    // Family members have no token: the app set it for the purchaser.
    if request.ownership == .purchased { transaction.appAccountToken = request.appAccountToken }
    if product.period == nil { return try buyOnce(transaction, at: now) }
    var outcome = try subscribe(transaction, to: product, by: request, at: now)
    outcome.others = try tellFamily(of: outcome.originalTransactionID, outcome.notification, at: now)
    return outcome
  }

  /// Makes a transaction with new ids, the product's price and storefront.
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
    transaction.storefront = product.storefront
    if product.storefront == "USA" { transaction.storefrontId = "143441" }
    if product.period != nil { transaction.webOrderLineItemId = identifiers.orderLineID() }
    return transaction
  }

  mutating func buyOnce(
    _ purchase: TransactionInfo, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    if purchase.type == .nonConsumable,
      let owned = bought(by: purchase.appTransactionId).first(where: {
        transactions[$0]?.productId == purchase.productId && transactions[$0]?.revocationDate == nil
      })
    {
      throw .alreadyOwned(transactionID: owned)
    }
    record(purchase)
    return try notify(.oneTimeCharge, about: purchase.transactionId, at: now)
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
    if let earlier { makeSuccessor(&transaction, of: try current(of: earlier)) }
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
      recentStart: recentStart, renewsAs: product.id, autoRenews: true, billing: .settled,
      extensionDates: earlier?.extensionDates ?? [])
    return try notify(
      request.announcesOffer && request.offer != nil ? .offerRedeemed : .subscribed,
      earlier == nil ? .initialBuy : .resubscribe, about: transaction.transactionId, at: now)
  }

  /// The customer's earlier subscription of the group with the same ownership.
  ///
  /// - Throws: ``StoreRefusal/alreadySubscribed(originalTransactionID:)`` if it has not ended.
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

  /// Sets the end and the price of the first period, by the offer if there is one.
  func setFirstPeriod(
    of transaction: inout TransactionInfo, product: StoreProduct, offer: StoreOffer?
  ) {
    let period = offer?.period ?? product.period
    transaction.expiresDate = period.map { timeScale.date(transaction.purchaseDate, adding: $0) }
    if let offer { transaction.apply(offer) }
  }

  /// The account's download of the app; a new one is dated `date`.
  mutating func download(
    of bundleID: String, by accountID: String, at date: Date
  ) -> Download {
    if let download = accounts[accountID]?[bundleID] { return download }
    let download = Download(appTransactionID: identifiers.appTransactionID(), originalPurchaseDate: date)
    accounts[accountID, default: [:]][bundleID] = download
    return download
  }

  /// Returns the app transaction of an account. A new account downloads the app now.
  ///
  /// - Parameters:
  ///   - accountID: nil for a new account.
  ///   - originalPurchaseDate: the time of the first download; only for a new account.
  public mutating func appTransaction(
    of bundleID: String, accountID: String? = nil, originalPurchaseDate: Date? = nil, at now: Date
  ) throws(StoreRefusal) -> AppTransaction {
    let app = try app(bundleID)
    let download = download(
      of: bundleID, by: accountID ?? identifiers.accountID(),
      at: (originalPurchaseDate ?? now).wholeMilliseconds)
    var transaction = AppTransaction(
      bundleId: bundleID, receiptType: environment, receiptCreationDate: signingDate(at: now))
    if environment == .production { transaction.appAppleId = app.appAppleID }
    transaction.applicationVersion = app.version
    transaction.originalPurchaseDate = download.originalPurchaseDate
    transaction.originalApplicationVersion = app.version
    transaction.originalPlatform = .iOS
    transaction.appTransactionId = download.appTransactionID
    // Only the device can check these two; any well-formed value works.
    transaction.deviceVerification = identifiers.deviceVerification()
    transaction.deviceVerificationNonce = identifiers.uuid()
    return transaction
  }
}

extension TransactionInfo {
  /// Sets the price of the period by the offer.
  mutating func apply(_ offer: StoreOffer) {
    price = offer.price
    offerType = offer.type
    offerIdentifier = offer.identifier
    offerDiscountType = offer.discountType
    offerPeriod = offer.period.text
  }
}

extension SimulatedStore {
  /// Makes a transaction the successor of `previous` in a subscription.
  ///
  /// Purchase dates increase, because the latest one marks the current transaction. Only a purchase that replaces a
  /// renewal charged ahead is dated before `previous`, and after the last `signedDate`. No two transactions of a
  /// subscription have the same date, because product and date identify a period.
  func makeSuccessor(_ transaction: inout TransactionInfo, of previous: TransactionInfo) {
    transaction.originalTransactionId = previous.originalTransactionId
    transaction.originalPurchaseDate = previous.originalPurchaseDate
    let boughtNow = max(transaction.purchaseDate, lastSigned + 0.001)
    let replacesChargedAhead =
      transaction.transactionReason == .purchase && previous.transactionReason == .renewal
      && previous.purchaseDate > boughtNow
    let earliest =
      replacesChargedAhead ? boughtNow : max(transaction.purchaseDate, previous.purchaseDate + 0.001)
    transaction.purchaseDate = earliest.wholeMilliseconds
    let known = subscriptions[previous.originalTransactionId]?.transactionIDs ?? []
    let dates = Set(known.compactMap { transactions[$0]?.purchaseDate })
    while dates.contains(transaction.purchaseDate) {
      transaction.purchaseDate = (transaction.purchaseDate + 0.001).wholeMilliseconds
    }
  }

  /// Records a child's request to buy (Ask to Buy). StoreKit answers the app with `pending`; until a parent decides
  /// there is no transaction, no signed payload and no notification.
  ///
  /// - Returns: the id for approving or declining the request.
  public mutating func ask(_ request: PurchaseRequest) throws(StoreRefusal) -> UUID {
    _ = try product(request.productID, of: request.bundleID)
    let id = identifiers.uuid()
    pendingPurchases[id] = request
    return id
  }

  /// Approves a request, which becomes a purchase now. StoreKit delivers it to the app by `Transaction.updates`.
  public mutating func approve(_ request: UUID, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let purchase = try pending(request)
    let outcome = try buy(purchase, at: now)
    pendingPurchases[request] = nil
    return outcome
  }

  /// Declines a request: there is no purchase, and the app gets no notification.
  public mutating func decline(_ request: UUID) throws(StoreRefusal) {
    _ = try pending(request)
    pendingPurchases[request] = nil
  }

  private func pending(_ request: UUID) throws(StoreRefusal) -> PurchaseRequest {
    guard let purchase = pendingPurchases[request] else { throw .unknownRequest(request) }
    return purchase
  }
}

extension SimulatedAppStore {
  /// Records a child's request to buy. See ``SimulatedStore/ask(_:)``.
  public func ask(_ request: PurchaseRequest, in environment: Environment = .production) throws -> UUID {
    try withStore(of: environment) { store, _ throws(StoreRefusal) in try store.ask(request) }
  }

  /// Approves a request. See ``SimulatedStore/approve(_:at:)``.
  public func approve(_ request: UUID, in environment: Environment = .production) throws -> SignedOutcome {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in try store.approve(request, at: now) })
  }

  /// Declines a request. See ``SimulatedStore/decline(_:)``.
  public func decline(_ request: UUID, in environment: Environment = .production) throws {
    try withStore(of: environment) { store, _ throws(StoreRefusal) in try store.decline(request) }
  }
}
