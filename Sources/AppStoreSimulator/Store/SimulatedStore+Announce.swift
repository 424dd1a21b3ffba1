import AppStore
import Foundation

/// An event of a token for purchases outside of the store (`EXTERNAL_PURCHASE_TOKEN`).
public enum ExternalPurchaseEvent: String, Hashable, Sendable, CaseIterable {
  /// The token was created: `CREATED`.
  case created
  /// The token was not reported to Apple in time: `UNREPORTED`.
  case unreported
  /// The monthly reminder of an active token: `ACTIVE_TOKEN_REMINDER`.
  case reminder = "active-token-reminder"

  var subtype: Subtype {
    switch self {
    case .created: .created
    case .unreported: .unreported
    case .reminder: .activeTokenReminder
    }
  }
}

// Notifications about an app or a customer instead of a purchase.
extension SimulatedStore {
  /// Sends an event of an external purchase token: `EXTERNAL_PURCHASE_TOKEN`.
  ///
  /// - Parameter id: the id of the token; ignored for `created`.
  /// - Throws: ``StoreRefusal/unknownExternalPurchase(_:)`` if the token does not exist.
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
      // Apple documents no lifetime. A year leaves room for several monthly reminders.
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

  /// Withdraws a parent's consent to a child's use of the app: `RESCIND_CONSENT` with the app transaction of the
  /// child's account. Purchases do not change.
  public mutating func rescindConsent(
    bundleID: String, accountID: String? = nil, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let transaction = try appTransaction(of: bundleID, accountID: accountID, at: now)
    return try announce(.rescindConsent, bundleID: bundleID, at: now) { $0.appTransaction = transaction }
  }

  /// Reports the end of a mass extension: `RENEWAL_EXTENSION`, `SUMMARY`.
  ///
  /// - Parameter summary: product, request and counts; the store sets app and environment.
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
