import AppStore
import FoundationEssentials
import Synchronization

// What tests want of the App Store Server API besides its answers.
extension SimulatedAppStore {
  /// The faults of the API that are in force.
  public var serverFaults: [ServerFault] { state.withLock { $0.faults.all } }

  /// Puts a fault of the API in force, behind those that are.
  public func add(_ fault: ServerFault) {
    state.withLock { $0.faults.add(fault) }
  }

  /// Lets the API answer as it should.
  public func clearServerFaults() {
    state.withLock { $0.faults.clear() }
  }

  func takeFault(for endpoint: ServerEndpoint, in environment: Environment) -> ServerFault? {
    state.withLock { $0.faults.take(for: endpoint, in: environment) }
  }

  /// The latest requests that the API got, oldest first; up to 10,000.
  public var serverRequests: [ServerRequest] { state.withLock { $0.journal.requests } }

  /// Forgets the requests so far.
  public func clearServerRequests() {
    state.withLock { $0.journal.clear() }
  }

  func note(_ request: ServerRequest) -> Int {
    state.withLock { $0.journal.note(request) }
  }

  func noteAnswer(_ number: Int, status: Int?) {
    state.withLock { $0.journal.answered(number, status: status) }
  }

  /// What apps told of how purchases were used, oldest first.
  public var consumptionReports: [ConsumptionReport] { state.withLock { $0.consumption } }

  func keep(_ report: ConsumptionReport) {
    state.withLock { $0.consumption.append(report) }
  }
}
