import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  /// Adds the routes for a child's requests to buy.
  func addAskToBuy(to router: inout Router) {
    on(.post, "/control/pending-purchases", &router) { request in
      let body = try request.decodeJSON(PurchaseParameters.self)
      let environment = body.environment ?? environment
      let id = try store.ask(try body.request(introductoryOffer: nil), in: environment)
      return try .json(.created, PendingAnswer(requestID: id))
    }
    on(.post, "/control/pending-purchases/{requestID}/approve", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      let outcome = try store.approve(id, in: environment(of: request))
      return try .json(.ok, await answer(outcome, to: request))
    }
    on(.post, "/control/pending-purchases/{requestID}/decline", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      try store.decline(id, in: environment(of: request))
      return .empty(.noContent)
    }
  }

  private func environment(of request: Request) -> Environment {
    request.query["environment"].map { Environment(rawValue: $0) } ?? environment
  }
}

struct PendingAnswer: Encodable {
  let requestID: UUID
}
