import AppStore
import Foundation
import Synchronization

// Faults, requests and consumption reports of the App Store Server API, for tests.
extension SimulatedAppStore {
  /// The active faults.
  public var serverFaults: [ServerFault] { state.withLock { $0.faults.all } }

  /// Adds a fault after the active ones.
  public func add(_ fault: ServerFault) {
    state.withLock { $0.faults.add(fault) }
  }

  /// Removes all faults.
  public func clearServerFaults() {
    state.withLock { $0.faults.clear() }
  }

  func takeFault(for endpoint: ServerEndpoint, in environment: Environment) -> ServerFault? {
    state.withLock { $0.faults.take(for: endpoint, in: environment) }
  }

  /// The latest requests, oldest first; up to 10,000.
  public var serverRequests: [ServerRequest] { state.withLock { $0.journal.requests } }

  /// Clears the log of requests.
  public func clearServerRequests() {
    state.withLock { $0.journal.clear() }
  }

  func note(_ request: ServerRequest) -> Int {
    state.withLock { $0.journal.note(request) }
  }

  func noteAnswer(_ number: Int, status: Int?) {
    state.withLock { $0.journal.answered(number, status: status) }
  }

  /// The consumption reports, oldest first.
  public var consumptionReports: [ConsumptionReport] { state.withLock { $0.consumption } }

  func keep(_ report: ConsumptionReport) {
    state.withLock { $0.consumption.append(report) }
  }
}
