import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  func addNotifications(to router: inout Router) {
    on(.post, "/control/webhook", &router) { request in
      let body = try request.decodeJSON(WebhookBody.self)
      store.setWebhook(body.url)
      if let retries = body.retries { store.setRetries(retries) }
      return .empty(.noContent)
    }
    on(.post, "/control/test", &router) { request in
      let body = try request.decodeJSON(TestBody.self)
      let notification = try store.test(bundleID: body.bundleID, in: body.environment ?? environment)
      return try .json(.ok, await delivered(notification, for: request))
    }
    on(.get, "/control/notifications", &router) { request in
      let purchase = request.query["originalTransactionID"]
      let notifications = store.notifications.filter {
        purchase == nil || $0.content.transaction?.originalTransactionId == purchase
      }
      return try .json(.ok, NotificationsAnswer(notifications: notifications.map(answer)))
    }
    on(.post, "/control/notifications/{uuid}/send", &router) { request in
      let uuid: String = try request.parameters.require("uuid")
      await store.send(uuid)
      guard let notification = store.notification(uuid) else {
        throw Problem.notFound("The store has sent no such notification.")
      }
      return try .json(.ok, answer(notification))
    }
  }

  /// Sends a new notification, unless the query has `deliver=false`, and waits for the outcome.
  func delivered(
    _ notification: SignedNotification, for request: Request
  ) async -> NotificationAnswer {
    if request.query["deliver"] != "false" { await store.deliver(notification.uuid) }
    return answer(store.notification(notification.uuid) ?? notification)
  }

  /// Sends several notifications one after the other, in order.
  func delivered(
    _ notifications: [SignedNotification], for request: Request
  ) async -> [NotificationAnswer] {
    var answers: [NotificationAnswer] = []
    for notification in notifications { answers.append(await delivered(notification, for: request)) }
    return answers
  }

  private func answer(_ notification: SignedNotification) -> NotificationAnswer {
    NotificationAnswer(notification, nextAttempt: store.nextAttempt(of: notification.uuid))
  }
}
