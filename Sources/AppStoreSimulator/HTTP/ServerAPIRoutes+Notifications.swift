import AppStore
import Foundation
import HTTP
import HTTPTypes
import Identifiers

extension ServerAPIRoutes {
  func requestTestNotification(of app: StoreApp) throws -> Response {
    guard store.hasWebhook else { throw ServerAPIError(.serverNotificationUrlNotFound) }
    let notification = try store.test(bundleID: app.bundleID, in: environment)
    sendLater([notification])
    var answer = SendTestNotificationResponse()
    answer.testNotificationToken = notification.uuid
    return try .json(.ok, answer)
  }

  func testNotificationStatus(_ request: Request, of app: StoreApp) throws -> Response {
    let token: String = try request.parameters.require("testNotificationToken")
    guard UUID(rfc9562: token) != nil else { throw ServerAPIError(.invalidTestNotificationToken) }
    guard let notification = store.notification(token.lowercased()),
      notification.content.type == .test, notification.content.environment == environment,
      notification.content.bundleID == app.bundleID, !notification.attempts.isEmpty
    else { throw ServerAPIError(.testNotificationNotFound) }
    var answer = CheckTestNotificationResponse()
    answer.signedPayload = notification.signedPayload
    answer.sendAttempts = notification.attempts.map(SendAttemptItem.init)
    return try .json(.ok, answer)
  }

  func notificationHistory(_ request: Request, of app: StoreApp) throws -> Response {
    let body: NotificationHistoryRequest = try body(request)
    guard body.startDate < body.endDate else { throw ServerAPIError(.startDateAfterEndDate) }
    let days: Double = environment == .production ? 180 : 30
    // An hour of tolerance, because the caller's clock is not the store's.
    guard body.startDate >= store.clock.now.addingTimeInterval(-days * 86_400 - 3600) else {
      throw ServerAPIError(.startDateTooFarInPast)
    }
    // A token is the index in the list of all notifications, which new notifications do not change.
    guard let start = Int(pathParameter: request.query["paginationToken"] ?? "0") else {
      throw ServerAPIError(.invalidPaginationToken)
    }
    let found = store.notifications.enumerated().dropFirst(start).filter { _, notification in
      let content = notification.content
      return content.environment == environment && content.bundleID == app.bundleID
        && (body.startDate...body.endDate).contains(content.signedDate)
    }
    var answer = NotificationHistoryResponse()
    answer.notificationHistory = found.prefix(Self.pageLength).map { _, notification in
      var item = NotificationHistoryResponseItem()
      item.signedPayload = notification.signedPayload
      item.sendAttempts = notification.attempts.map(SendAttemptItem.init)
      return item
    }
    answer.hasMore = found.count > Self.pageLength
    if found.count > Self.pageLength { answer.paginationToken = found[Self.pageLength].offset.description }
    return try .json(.ok, answer)
  }
}

extension SendAttemptItem {
  fileprivate init(_ attempt: SendAttempt) {
    self.init()
    attemptDate = attempt.attemptDate
    sendAttemptResult = attempt.outcome.result
  }
}
