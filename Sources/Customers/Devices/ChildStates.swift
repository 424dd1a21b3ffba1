import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

/// The states of the children of some households before a change that may open or pause others of them: the end of a
/// pairing, or another device with the plan.
package struct ChildStates: Sendable {
  fileprivate let app: App
  /// The devices of the parents, and all that share their plans.
  fileprivate let devices: [String]
  /// The best state of each child.
  fileprivate let states: [String: ChildState]
}

extension PostgresConnection {
  /// Reads the states of the children of these parents' devices, for ``changedChildren(since:at:)``.
  ///
  /// The plans are locked until the transaction ends, so that the second of two changes at once sees the first. The
  /// transaction holds the customers' locks, and has written no row of the outbox.
  /// - Returns: `nil` if no destination is told of children.
  package nonisolated(nonsending) func childStates(
    of parents: [String], in app: App, at instant: Date
  ) async throws -> ChildStates? {
    guard !parents.isEmpty, app.limitsDevices, !app.stateDestinations.isEmpty else { return nil }
    let households = try await readableHouseholds(of: parents, in: app, at: instant)
    let plans = households.map { device, household in
      "\(app.bundleID)/\(household.plan ?? "device/\(device)")"
    }
    _ = try await query(AdvisoryLock.acquire(.household, Set(plans)))
    let devices = Set(households.values.flatMap(\.sharers)).sorted()
    return ChildStates(
      app: app, devices: devices, states: try await states(ofChildrenOf: devices, in: app, at: instant))
  }

  /// The children whose state has changed.
  package nonisolated(nonsending) func changedChildren(
    since before: ChildStates?, at instant: Date
  ) async throws -> [CustomerChange] {
    guard let before else { return [] }
    return try await states(ofChildrenOf: before.devices, in: before.app, at: instant)
      .filter { before.states[$0.key] != $0.value }
      .map { CustomerChange(bundleID: before.app.bundleID, customer: .device($0.key)) }
  }

  private nonisolated(nonsending) func states(
    ofChildrenOf devices: [String], in app: App, at instant: Date
  ) async throws -> [String: ChildState] {
    var states: [String: ChildState] = [:]
    for household in try await readableHouseholds(of: devices, in: app, at: instant).values {
      for child in household.children.map(\.childDeviceID) {
        guard let state = household.state(of: child) else { continue }
        states[child] = states[child].map { min($0, state) } ?? state
      }
    }
    return states
  }
}
