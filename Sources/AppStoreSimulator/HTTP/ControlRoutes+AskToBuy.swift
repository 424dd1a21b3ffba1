import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes

extension ControlRoutes {
  /// Purchases that wait for somebody of the family.
  func addAskToBuy(to router: inout Router) {
    on(.post, "/control/pending-purchases", &router) { request in
      let body = try request.decodeJSON(PurchaseParameters.self)
      let environment = body.environment ?? environment
      let id = try store.ask(try body.request(introductoryOffer: nil), in: environment)
      return try .json(.created, PendingAnswer(requestID: id))
    }
    on(.post, "/control/pending-purchases/{requestID}/approve", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      let outcome = try store.approve(id, in: try wanted(request))
      return try .json(
        .ok,
        CommandAnswer(
          transactionID: outcome.transactionID, originalTransactionID: outcome.originalTransactionID,
          orderID: outcome.orderID, signedTransaction: outcome.signedTransaction,
          signedRenewalInfo: outcome.signedRenewalInfo,
          notification: await delivered(outcome.notification, for: request),
          others: await delivered(outcome.others, for: request)))
    }
    on(.post, "/control/pending-purchases/{requestID}/decline", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      try store.decline(id, in: try wanted(request))
      return .empty(.noContent)
    }
  }

  private func wanted(_ request: Request) throws -> Environment {
    request.query["environment"].map { Environment(rawValue: $0) } ?? environment
  }
}

struct PendingAnswer: Encodable {
  let requestID: UUID
}
