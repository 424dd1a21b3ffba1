import AppStore
import Foundation
import Synchronization

/// A received body of Send Consumption Information.
public struct ConsumptionReport: Encodable, Sendable {
  /// The transaction.
  public let transactionID: String
  /// The body.
  public let body: ConsumptionRequest
}

/// A request that changed a purchase, or told the store something, and was accepted.
public struct AcceptedRequest: Sendable {
  /// The endpoint.
  public let endpoint: ServerEndpoint
  /// The body as received.
  public let body: [UInt8]
}

// Faults, accepted requests and consumption reports of the App Store Server API, for tests.
extension SimulatedAppStore {
  /// The active faults; the first one that applies to a request is used.
  public var serverFaults: [ServerFault] { state.withLock { $0.faults } }

  /// Adds a fault after the active ones.
  public func add(_ fault: ServerFault) {
    state.withLock { $0.faults.append(fault) }
  }

  /// Removes all faults.
  public func clearServerFaults() {
    state.withLock { $0.faults = [] }
  }

  func takeFault(for endpoint: ServerEndpoint) -> ServerFault? {
    state.withLock { $0.faults.take(for: endpoint) }
  }

  /// The accepted requests with a body, oldest first.
  public var acceptedRequests: [AcceptedRequest] { state.withLock { $0.accepted } }

  func keep(_ request: AcceptedRequest) {
    state.withLock { $0.accepted.append(request) }
  }

  /// The consumption reports, oldest first.
  public var consumptionReports: [ConsumptionReport] { state.withLock { $0.consumption } }

  func keep(_ report: ConsumptionReport) {
    state.withLock { $0.consumption.append(report) }
  }
}
