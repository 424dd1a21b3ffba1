import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  /// Adds the routes for the apps, the clock, and the state of the store.
  func addStore(to router: inout Router) {
    on(.post, "apps", &router) { request in
      store.put(try request.decodeJSON(StoreApp.self))
      return Done()
    }
    on(.get, "clock", &router) { _ in ClockAnswer(now: store.clock.now) }
    on(.post, "clock", &router) { request in
      let change = try request.decodeJSON(ClockChange.self)
      if let now = change.now { try store.clock.set(to: now) }
      if let period = change.advance {
        try store.clock.set(to: store.timeScale.date(store.clock.now, adding: period))
      }
      // Deliver first, so that a script finds all due notifications sent.
      await store.deliverDue()
      return ClockAnswer(now: store.clock.now)
    }
    on(.get, "truth/{transactionID}", &router) { request in
      guard let truth = store.truth(of: try request.parameters.require("transactionID")) else {
        throw Problem.notFound("The store has no such transaction.")
      }
      return truth
    }
    on(.get, "consumption", &router) { _ in ["reports": store.consumptionReports] }
  }
}

/// The body of `POST /control/clock`. Its members are applied in this order.
private struct ClockChange: Decodable {
  /// The later time to set.
  let now: Date?
  /// The period of the store's time to advance.
  let advance: StorePeriod?
}

private struct ClockAnswer: Encodable {
  let now: Date
}
