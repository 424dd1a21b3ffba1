import AppStore
import Foundation
import HTTP
import HTTPTypes

private struct FaultsAnswer: Encodable {
  let delivery: DeliveryFaults
  let api: [ServerFault]
}

extension ControlRoutes {
  func addFaults(to router: inout Router) {
    on(.get, "/control/faults", &router) { _ in try faults() }
    on(.delete, "/control/faults", &router) { _ in
      store.clearServerFaults()
      await store.setDeliveryFaults(DeliveryFaults())
      return try faults()
    }
    on(.put, "/control/faults/delivery", &router) { request in
      let wanted = try request.decodeJSON(DeliveryFaults.self)
      guard (0...1).contains(wanted.loss), (0...1).contains(wanted.duplicates), wanted.lose >= 0,
        (0...10_000).contains(wanted.reorder), wanted.delay >= 0
      else { throw Problem.invalidRequest("Probabilities are 0 to 1, and nothing is negative.") }
      await store.setDeliveryFaults(wanted)
      return try faults()
    }
    on(.post, "/control/faults/delivery/release", &router) { _ in
      await store.releaseHeld()
      return try faults()
    }
    on(.post, "/control/faults/api", &router) { request in
      let fault = try request.decodeJSON(ServerFault.self)
      if fault.fault == .error, fault.code == nil { throw Problem.invalidRequest("'code' is missing.") }
      guard (0...Self.longestDelay).contains(fault.delay ?? 0) else {
        throw Problem.invalidRequest("'delay' must be at most \(Self.longestDelay) seconds.")
      }
      guard fault.requests ?? 1 > 0, (0...1).contains(fault.probability ?? 1) else {
        throw Problem.invalidRequest("'requests' must be 1 or more, and 'probability' 0 to 1.")
      }
      store.add(fault)
      return try faults()
    }
    on(.delete, "/control/faults/api", &router) { _ in
      store.clearServerFaults()
      return try faults()
    }
  }

  /// The longest delay in seconds, below the server's handler deadline.
  static let longestDelay = 100.0

  private func faults() throws -> Response {
    try .json(.ok, FaultsAnswer(delivery: store.deliveryFaults, api: store.serverFaults))
  }
}
