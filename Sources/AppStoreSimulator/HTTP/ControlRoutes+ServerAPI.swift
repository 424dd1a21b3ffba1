import AppStore
import Foundation
import HTTP
import HTTPTypes

private struct RequestsAnswer: Encodable {
  let requests: [ServerRequest]
}

private struct ConsumptionAnswer: Encodable {
  let reports: [ConsumptionReport]
}

extension ControlRoutes {
  /// Adds the routes that show the requests to the App Store Server API.
  func addServerAPI(to router: inout Router) {
    on(.get, "/control/requests", &router) { request in
      let endpoint = request.query["endpoint"]
      let requests = store.serverRequests.filter { endpoint == nil || $0.endpoint.rawValue == endpoint }
      return try .json(.ok, RequestsAnswer(requests: requests))
    }
    on(.delete, "/control/requests", &router) { _ in
      store.clearServerRequests()
      return .empty(.noContent)
    }
    on(.get, "/control/consumption", &router) { request in
      let id = request.query["transactionID"]
      let reports = store.consumptionReports.filter { id == nil || $0.transactionID == id }
      return try .json(.ok, ConsumptionAnswer(reports: reports))
    }
  }
}
