import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  /// Adds the routes for notifications about an app or a customer instead of a purchase.
  func addAnnouncements(to router: inout Router) {
    on(.post, "/control/external-purchases", &router) { request in
      let body = try request.decodeJSON(ExternalPurchaseBody.self)
      guard let event = ExternalPurchaseEvent(rawValue: body.event ?? "created") else {
        throw Problem.invalidRequest("'event' must be created, unreported or active-token-reminder.")
      }
      let notification = try store.externalPurchase(
        event, id: body.externalPurchaseID, bundleID: body.bundleID, in: body.environment ?? environment)
      return try .json(.ok, await delivered(notification, for: request))
    }
    on(.post, "/control/rescinded-consents", &router) { request in
      let body = try request.decodeJSON(RescindedConsentBody.self)
      let notification = try store.rescindConsent(
        bundleID: body.bundleID, accountID: body.account, in: body.environment ?? environment)
      return try .json(.ok, await delivered(notification, for: request))
    }
  }
}

private struct ExternalPurchaseBody: Decodable {
  let bundleID: String
  let environment: Environment?
  let event: String?
  let externalPurchaseID: String?
}

private struct RescindedConsentBody: Decodable {
  let bundleID: String
  let environment: Environment?
  let account: String?
}
