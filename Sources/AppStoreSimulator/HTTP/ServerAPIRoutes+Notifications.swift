import AppStore
import Foundation
import HTTP
import HTTPTypes
import Identifiers

extension ServerAPIRoutes {
  func requestTestNotification(of app: StoreApp) throws -> Response {
    guard store.hasWebhook else { throw ServerAPIError.noWebhook }
    let notification = try store.test(bundleID: app.bundleID, in: environment)
    sendLater([notification])
    var answer = SendTestNotificationResponse()
    answer.testNotificationToken = notification.uuid
    return try .json(.ok, answer)
  }

  func testNotificationStatus(_ request: Request, of app: StoreApp) throws -> Response {
    let token: String = try request.parameters.require("testNotificationToken")
    guard UUID(rfc9562: token) != nil else { throw ServerAPIError.invalidTestNotificationToken }
    guard let notification = store.notification(token.lowercased()),
      notification.content.type == .test, notification.content.environment == environment,
      notification.content.bundleID == app.bundleID, !notification.attempts.isEmpty
    else { throw ServerAPIError.testNotificationNotFound }
    var answer = CheckTestNotificationResponse()
    answer.signedPayload = notification.signedPayload
    answer.sendAttempts = notification.attempts.map(SendAttemptItem.init)
    return try .json(.ok, answer)
  }

  func notificationHistory(_ request: Request, of app: StoreApp) throws -> Response {
    let query: NotificationHistoryQuery = try body(request)
    let filter = try query.checked(now: store.clock(), daysBack: environment == .production ? 180 : 30)
    let start = try request.query["paginationToken"].map { token in
      guard let start = Int(pathParameter: token) else { throw ServerAPIError.invalidPaginationToken }
      return start
    }
    let purchases = try query.transactionId.map { id in
      let id = try Self.checked(id.value, orThrow: .invalidTransactionID)
      return try store.withStore(of: environment) { store, _ throws(StoreRefusal) in
        store.purchases(ofCustomerWith: id, in: app.bundleID)
      }
    }
    // A token is the index in the list of all notifications, which new notifications do not change.
    var page: [SignedNotification] = []
    var next: Int?
    for (position, notification) in store.notifications.enumerated().dropFirst(start ?? 0) {
      let content = notification.content
      guard content.environment == environment, content.bundleID == app.bundleID,
        filter.includes(notification),
        purchases.map({ content.concerns(oneOf: $0) }) ?? true
      else { continue }
      guard page.count < Self.pageLength else {
        next = position
        break
      }
      page.append(notification)
    }
    var answer = NotificationHistoryResponse()
    answer.notificationHistory = page.map { notification in
      var item = NotificationHistoryResponseItem()
      item.signedPayload = notification.signedPayload
      item.sendAttempts = notification.attempts.map(SendAttemptItem.init)
      return item
    }
    answer.hasMore = next != nil
    answer.paginationToken = next?.description
    return try .json(.ok, answer)
  }
}

/// The body of Get Notification History. Every member is optional here, because the error names the missing one.
private struct NotificationHistoryQuery: Decodable {
  let startDate: Member<Int64>?
  let endDate: Member<Int64>?
  let notificationType: Member<NotificationType>?
  let notificationSubtype: Member<Subtype>?
  let transactionId: Member<String>?
  let onlyFailures: Member<Bool>?

  /// The checked filter, without the customer.
  struct Filter {
    let dates: ClosedRange<Date>
    let type: NotificationType?
    let subtype: Subtype?
    let isFailure: Bool

    func includes(_ notification: SignedNotification) -> Bool {
      let content = notification.content
      return dates.contains(content.signedDate)
        && (type.map { $0 == content.type } ?? true)
        && (subtype.map { $0 == content.subtype } ?? true)
        && !(isFailure && notification.isDelivered)
    }
  }

  /// - Parameter daysBack: the reach of the history.
  func checked(now: Date, daysBack: Double) throws(ServerAPIError) -> Filter {
    guard let start = startDate?.value.flatMap(Date.init(millisecondsSince1970:)) else {
      throw .invalidStartDate
    }
    guard let end = endDate?.value.flatMap(Date.init(millisecondsSince1970:)) else {
      throw .invalidEndDate
    }
    guard start < end else { throw .startDateAfterEndDate }
    // An hour of tolerance, because the caller's clock is not the store's.
    if start < now.addingTimeInterval(-daysBack * 86_400 - 3600) { throw .startDateTooFarInPast }
    if transactionId != nil, notificationType != nil { throw .multipleFilters }
    if let notificationType {
      guard let type = notificationType.value, let subtypes = Self.subtypes[type] else {
        throw .invalidNotificationType
      }
      if let subtype = notificationSubtype?.value, !subtypes.contains(subtype) {
        throw .invalidNotificationType
      }
    } else if notificationSubtype != nil {
      throw .invalidNotificationType
    }
    return Filter(
      dates: start...end, type: notificationType?.value, subtype: notificationSubtype?.value,
      isFailure: onlyFailures?.value ?? false)
  }

  /// All types with their subtypes.
  private static let subtypes: [NotificationType: Set<Subtype>] = [
    .subscribed: [.initialBuy, .resubscribe],
    .didChangeRenewalPref: [.upgrade, .downgrade],
    .didChangeRenewalStatus: [.autoRenewEnabled, .autoRenewDisabled],
    .offerRedeemed: [.initialBuy, .resubscribe, .upgrade, .downgrade],
    .didRenew: [.billingRecovery],
    .expired: [.voluntary, .billingRetry, .priceIncrease, .productNotForSale],
    .didFailToRenew: [.gracePeriod],
    .gracePeriodExpired: [],
    .priceIncrease: [.pending, .accepted],
    .refund: [],
    .refundDeclined: [],
    .refundReversed: [],
    .consumptionRequest: [],
    .renewalExtended: [],
    .renewalExtension: [.summary, .failure],
    .revoke: [],
    .test: [],
    .externalPurchaseToken: [.unreported, .created, .activeTokenReminder],
    .oneTimeCharge: [],
    .rescindConsent: [],
    .metadataUpdate: [],
    .migration: [],
    .priceChange: [],
  ]
}

extension StoreNotification {
  /// Whether the notification is about one of these purchases.
  func concerns(oneOf purchases: Set<String>) -> Bool {
    transaction.map { purchases.contains($0.originalTransactionId) } ?? false
  }
}

extension SendAttemptItem {
  init(_ attempt: SendAttempt) {
    self.init()
    attemptDate = attempt.attemptDate
    sendAttemptResult = attempt.outcome.result
  }
}
