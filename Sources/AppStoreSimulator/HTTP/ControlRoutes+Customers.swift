import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  /// Adds the routes for purchases and what follows them.
  func addCustomers(to router: inout Router) {
    on(.post, "purchases", &router) { request in
      let outcome = try store.buy(request.decodeJSON(PurchaseRequest.self), in: environment(of: request))
      return await delivered(outcome, for: request)
    }
    on(.post, "pending-purchases", &router) { request in
      let purchase = try request.decodeJSON(PurchaseRequest.self)
      return ["requestID": try store.ask(purchase, in: environment(of: request))]
    }
    on(.post, "pending-purchases/{requestID}/approve", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      return await delivered(try store.approve(id, in: environment(of: request)), for: request)
    }
    on(.post, "pending-purchases/{requestID}/decline", &router) { request in
      let id = try request.parameters.require("requestID", as: UUID.self)
      try store.decline(id, in: environment(of: request))
      return Done()
    }
    on(.post, "subscriptions/{originalTransactionID}/{command}", &router) { request in
      let command = try Self.command(of: request)
      let outcome = try store.perform(command, on: request.parameters.require("originalTransactionID"))
      return await delivered(outcome, for: request)
    }
    on(.post, "app-transactions", &router) { request in
      let body = try request.decodeJSON(AppTransactionBody.self)
      let signed = try store.appTransaction(
        of: body.bundleID, accountID: body.account, originalPurchaseDate: body.originalPurchaseDate,
        in: environment(of: request)
      ).signed
      return ["signedAppTransaction": signed]
    }
  }

  /// Decodes a command from its name in the path and its parameters in the body.
  private static func command(of request: Request) throws -> SubscriptionCommand {
    let name: String = try request.parameters.require("command")
    guard SubscriptionCommand.CodingKeys(rawValue: name) != nil else {
      throw Problem.notFound("There is no command \(name).")
    }
    let parameters = request.body.isEmpty ? Array("{}".utf8) : request.body
    return try JSONCoding.decode(from: Array("{\"\(name)\":".utf8) + parameters + Array("}".utf8))
  }

  /// Sends the notifications of an outcome.
  private func delivered(_ outcome: SignedOutcome, for request: Request) async -> SignedOutcome {
    var outcome = outcome
    outcome.notification = await delivered(outcome.notification, for: request)
    for index in outcome.others.indices {
      outcome.others[index] = await delivered(outcome.others[index], for: request)
    }
    return outcome
  }
}

private struct AppTransactionBody: Decodable {
  let bundleID: String
  let account: String?
  let originalPurchaseDate: Date?
}
