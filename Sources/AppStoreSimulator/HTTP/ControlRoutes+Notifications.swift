import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  func addNotifications(to router: inout Router) {
    on(.post, "webhook", &router) { request in
      let body = try request.decodeJSON(WebhookBody.self)
      store.setWebhook(body.url)
      if let retries = body.retries { store.setRetries(retries) }
      return Done()
    }
    on(.post, "test", &router) { request in
      let bundleID = try request.decodeJSON(TestBody.self).bundleID
      return await delivered(
        try store.test(bundleID: bundleID, in: environment(of: request)), for: request)
    }
    on(.get, "notifications", &router) { request in
      let purchase = request.query["originalTransactionID"]
      let notifications = store.notifications.filter {
        purchase == nil || $0.content.transaction?.originalTransactionId == purchase
      }
      return ["notifications": notifications]
    }
    on(.post, "notifications/{uuid}/send", &router) { request in
      let uuid: String = try request.parameters.require("uuid")
      await store.send(uuid)
      guard let notification = store.notification(uuid) else {
        throw Problem.notFound("The store has sent no such notification.")
      }
      return notification
    }
  }

  /// Sends a new notification, unless the query has `deliver=false`, and waits for the outcome.
  func delivered(_ notification: SignedNotification, for request: Request) async -> SignedNotification {
    if request.query["deliver"] != "false" { await store.deliver(notification.uuid) }
    return store.notification(notification.uuid) ?? notification
  }
}

private struct WebhookBody: Decodable {
  let url: String?
  let retries: Bool?
}

private struct TestBody: Decodable {
  let bundleID: String
}
