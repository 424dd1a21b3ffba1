import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ControlRoutes {
  func addFaults(to router: inout Router) {
    on(.get, "faults", &router) { _ in faults }
    on(.put, "faults/delivery", &router) { request in
      await store.setDeliveryFaults(try request.decodeJSON(DeliveryFaults.self))
      return faults
    }
    on(.post, "faults/api", &router) { request in
      let fault = try request.decodeJSON(ServerFault.self)
      if fault.fault == .error, fault.code == nil { throw Problem.invalidRequest("'code' is missing.") }
      guard (0...Self.longestDelay).contains(fault.delay ?? 0) else {
        throw Problem.invalidRequest("'delay' must be at most \(Self.longestDelay) seconds.")
      }
      store.add(fault)
      return faults
    }
    on(.delete, "faults/api", &router) { _ in
      store.clearServerFaults()
      return faults
    }
  }

  /// The longest delay in seconds, below the server's handler deadline.
  static let longestDelay = 100.0

  private var faults: FaultsAnswer {
    FaultsAnswer(delivery: store.deliveryFaults, api: store.serverFaults)
  }
}

private struct FaultsAnswer: Encodable {
  let delivery: DeliveryFaults
  let api: [ServerFault]
}
