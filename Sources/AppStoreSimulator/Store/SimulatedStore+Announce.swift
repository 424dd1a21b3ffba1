import AppStore
import FoundationEssentials

/// What the App Store says of a token for purchases outside of the store (`EXTERNAL_PURCHASE_TOKEN`).
public enum ExternalPurchaseEvent: String, Hashable, Sendable, CaseIterable {
  /// The token was made: `CREATED`.
  case created
  /// It was not reported to Apple in time: `UNREPORTED`.
  case unreported
  /// It is still active, as Apple says every month: `ACTIVE_TOKEN_REMINDER`.
  case reminder = "active-token-reminder"

  var subtype: Subtype {
    switch self {
    case .created: .created
    case .unreported: .unreported
    case .reminder: .activeTokenReminder
    }
  }
}

/// What is about an app or a customer of it, not about a purchase.
extension SimulatedStore {
  /// Something happens to an external purchase token: `EXTERNAL_PURCHASE_TOKEN`.
  ///
  /// - Parameter id: the token's; ignored where one is made.
  /// - Throws: ``StoreRefusal/unknownExternalPurchase(_:)`` where the token was not made.
  public mutating func externalPurchase(
    _ event: ExternalPurchaseEvent, id: String? = nil, bundleID: String, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let app = try app(bundleID)
    let token: ExternalPurchaseToken
    if event == .created {
      var made = ExternalPurchaseToken()
      let prefix = environment == .sandbox ? "SANDBOX_" : ""
      made.externalPurchaseId = prefix + identifiers.uuid().uuidString.lowercased()
      made.tokenCreationDate = now.wholeMilliseconds
      // Apple gives no number; the reminders come monthly while it lasts, so it outlasts some.
      made.tokenExpirationDate = timeScale.date(now.wholeMilliseconds, adding: .year)
      made.tokenType = "SERVICES"
      made.appAppleId = app.appAppleID
      made.bundleId = bundleID
      externalPurchaseTokens[made.externalPurchaseId ?? ""] = made
      token = made
    } else {
      guard let known = externalPurchaseTokens[id ?? ""], known.bundleId == bundleID else {
        throw .unknownExternalPurchase(id ?? "")
      }
      token = known
    }
    return try announce(.externalPurchaseToken, event.subtype, bundleID: bundleID, at: now) {
      $0.externalPurchaseToken = token
    }
  }

  /// A parent withdraws the consent to a child's use of the app: `RESCIND_CONSENT`, with the app transaction
  /// of the child's account. Purchases stay as they are.
  public mutating func rescindConsent(
    bundleID: String, accountID: String? = nil, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let transaction = try appTransaction(of: bundleID, accountID: accountID, at: now)
    return try announce(.rescindConsent, bundleID: bundleID, at: now) { $0.appTransaction = transaction }
  }

  /// An extension of many renewal dates is done: `RENEWAL_EXTENSION`, `SUMMARY`.
  ///
  /// - Parameter summary: the product, the request and the counts; app and environment are filled in.
  public mutating func summarizeExtension(
    _ summary: NotificationSummary, bundleID: String, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let app = try app(bundleID)
    var summary = summary
    summary.environment = environment
    summary.bundleId = bundleID
    summary.appAppleId = environment == .production ? app.appAppleID : nil
    return try announce(.renewalExtension, .summary, bundleID: bundleID, at: now) { $0.summary = summary }
  }
}
