import Configuration
import Foundation
import HTTP
import HTTPTypes
import JSON
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// `…/devices/{deviceID}/children`: pairs devices with a customer's device, up to the limit of the customer's tier.
///
/// A tier without a limit allows ``mostPairings``, because each response lists all pairings.
///
/// A lower limit deletes no device: the newest pairings beyond it are paused until the limit rises. The order of
/// pairing and the current limit decide which ones, so a change of tier writes nothing.
package struct Pairing: Sendable {
  let apps: AppOfRequest
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let clock: ServiceClock

  init(
    apps: AppOfRequest, pool: PostgresPool, authenticator: DeviceAuthenticator, clock: ServiceClock
  ) {
    self.apps = apps
    self.pool = pool
    self.authenticator = authenticator
    self.clock = clock
  }

  /// The most devices that a device pairs, whatever its tier allows.
  static let mostPairings = 100

  private struct Body: Decodable {
    var childDeviceID: String
    var name: String?
  }

  private struct Answer: Encodable {
    let success = true
    var children: [Child]
    @Nullable var limit: Int?
    var serverTime: Date
  }

  private struct Child: Encodable {
    var childDeviceID: String
    @Nullable var name: String?
    var pairedAt: Date
    var status: String
  }

  package func post(_ request: Request) async throws -> Response {
    try request.requireJSON()
    let (app, device) = try customer(of: request)
    let secret = try DeviceSecret(of: request)
    let body = try request.decodeJSON(Body.self)
    let child = try DeviceID(body.childDeviceID, named: "childDeviceID").name
    let name = try body.name.map(Self.checkName)
    let instant = clock.now()
    let (isNew, paired, limit) = try await authenticator.charges.charging(app, at: instant) { isCharged in
      try await pair(
        child, name: name, to: device, of: app, secret: secret, isCharged: isCharged, at: instant)
    }
    return try answer(isNew ? .created : .ok, paired, limit, at: instant)
  }

  /// - Parameter isCharged: whether the app's day was charged; `nil` if the transaction has not asked for it.
  private nonisolated(nonsending) func pair(
    _ child: String, name: String?, to device: String, of app: App, secret: DeviceSecret?, isCharged: Bool?,
    at instant: Date
  ) async throws -> (Bool, [PairedDevice], Int?) {
    try await authenticator.change(
      device, of: app, secret: secret
    ) { connection, _ async throws -> (Bool, [PairedDevice], Int?) in
      let isNew = try await add(
        child, name: name, to: device, of: app, isConfirmed: false, isCharged: isCharged, at: instant,
        connection)
      let household = try await household(of: device, in: app, at: instant, connection)
      return (isNew, household.children, household.limit)
    }
  }

  /// Pairs a child's device with a parent's, or renames it. The transaction holds the parent's lock, and that of a
  /// child that confirms.
  /// - Parameter isConfirmed: whether the child joins with a code.
  /// - Returns: whether it is new.
  /// - Throws: 400 `invalid_request`, 409 `device_limit_reached`, 429 `rate_limited`.
  nonisolated(nonsending) func add(
    _ child: String, name: String?, to device: String, of app: App, isConfirmed: Bool, isCharged: Bool?,
    at instant: Date, _ connection: PostgresConnection
  ) async throws -> Bool {
    var household = try await household(of: device, in: app, at: instant, connection)
    guard !household.parents.contains(child) else {
      throw Problem.invalidRequest("A device of the parent itself cannot be its child's: it has the plan.")
    }
    var isNew: Bool { !household.children.contains { $0.childDeviceID == child } }
    if isNew, let plan = household.plan {
      // The parent's other devices pair under other locks.
      _ = try await connection.query(AdvisoryLock.acquire(.household, ["\(app.bundleID)/\(plan)"]))
      household = try await self.household(of: device, in: app, at: instant, connection)
    }
    let most = min(household.limit ?? Self.mostPairings, Self.mostPairings)
    if isNew, household.count >= most {
      throw ServiceError.deviceLimitReached(limit: most, moreIsSold: app.sellsMoreDevices(than: most))
    }
    if isNew {
      // Clients can invent devices, so the pairings of those with nothing on record are charged to the days of the app
      // and of the child, which unpairing does not give back. A code was charged to the app's day when it was made, and
      // counts apart for the child, so that who names it does not stop its parent's code.
      let row = try await connection.query(DeviceSecretRows.chargesPairing(of: device, in: app))[0]
      if try row.decode("is_charged", as: Bool.self) {
        let ofChild = try await connection.query(
          PairingDayRows.charge(
            "\(isConfirmed ? "joined" : "child")/\(child)", in: app.bundleID,
            upTo: DeviceSecretRows.pairingsOfChild, at: instant))
        guard ofChild.affected == 1, isConfirmed || isCharged != false else {
          throw ServiceError.noPairingsLeft(wait: Day(of: instant).end.timeIntervalSince(instant))
        }
        if !isConfirmed, isCharged == nil {
          throw DayChargeNeeded(most: DeviceSecretRows.newPerDay(isProven: false))
        }
      }
    }
    // A plan moves from device to device, so its pairings are counted together. A code that a child uses again leaves a
    // row, too.
    if isNew || isConfirmed {
      let charged = try await connection.query(
        PairingDayRows.charge(
          household.budget, in: app.bundleID, upTo: PairingDayRows.spare + most, at: instant))
      guard charged.affected == 1 else {
        throw ServiceError.noPairingsLeft(wait: Day(of: instant).end.timeIntervalSince(instant))
      }
    }
    let pairing =
      if isNew {
        DeviceRows.insert(
          child, name: name, bundleID: app.bundleID, deviceID: device, isConfirmed: isConfirmed, at: instant)
      } else if isConfirmed {
        DeviceRows.confirm(
          child, name: name, bundleID: app.bundleID, with: device, of: household.parents, at: instant)
      } else {
        DeviceRows.rename(child, name, bundleID: app.bundleID, parents: household.parents)
      }
    guard try await connection.query(pairing).affected > 0 else {
      // The child was erased meanwhile. When the request is repeated, it is new.
      throw ServiceError.databaseUnavailable
    }
    let events =
      isNew
      ? [household.event(.childPaired, of: child, with: device, pairedAt: instant, in: app, at: instant)] : []
    try await connection.tell(child, events, of: app, in: apps.catalog, at: instant)
    return isNew
  }

  package func get(_ request: Request) async throws -> Response {
    let (app, device) = try customer(of: request)
    try await authenticator.require(device, of: app, secret: DeviceSecret(of: request))
    return try await list(app, device)
  }

  package func delete(_ request: Request) async throws -> Response {
    let (app, device) = try customer(of: request)
    let child = try DeviceID(request.parameters.require("childDeviceID"), named: "childDeviceID").name
    let deleted = try await authenticator.change(device, of: app, secret: DeviceSecret(of: request)) {
      connection, _ in
      let instant = clock.now()
      let household = try await household(of: device, in: app, at: instant, connection)
      guard let pairing = household.children.first(where: { $0.childDeviceID == child }) else { return false }
      let siblings = try await connection.childStates(of: household.parents, in: app, at: instant)
      let ended = try await connection.query(
        DeviceRows.delete(child, bundleID: app.bundleID, parents: household.parents, at: instant))
      // The child may have been erased meanwhile.
      guard !ended.isEmpty else { return false }
      let event = household.event(
        .childUnpaired, of: child, with: device, pairedAt: pairing.pairedAt, in: app, at: instant)
      try await connection.tell(
        child, [event], of: app, in: apps.catalog, endsPairing: true, besides: siblings, at: instant)
      return true
    }
    guard deleted else { throw Problem.notFound("No such device is paired.") }
    return try await list(app, device)
  }

  private func list(_ app: App, _ device: String) async throws -> Response {
    let instant = clock.now()
    let household = try await pool.withConnection { connection in
      try await self.household(of: device, in: app, at: instant, connection)
    }
    return try answer(.ok, household.children, household.limit, at: instant)
  }

  private nonisolated(nonsending) func household(
    of device: String, in app: App, at instant: Date, _ connection: PostgresConnection
  ) async throws -> Household {
    let households = try await connection.households(of: [device], in: app, at: instant)
    guard let household = households[device] else { throw ServiceError.internalError }
    return household
  }

  private func answer(
    _ status: HTTPResponse.Status, _ paired: [PairedDevice], _ limit: Int?, at instant: Date
  ) throws -> Response {
    let children = paired.map { device in
      Child(
        childDeviceID: device.childDeviceID, name: device.name, pairedAt: device.pairedAt,
        status: device.status(limit: limit))
    }
    return try .json(status, Answer(children: children, limit: limit, serverTime: instant))
  }

  func customer(of request: Request) throws -> (App, String) {
    let device = try DeviceID(request.parameters.require("deviceID")).name
    let app = try apps.app(of: request, named: request.query["bundleID"], customers: .device)
    return (app, device)
  }

  static func checkName(_ name: String) throws(Problem) -> String {
    guard name.utf8.count <= 128, name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw .invalidRequest("'name' must be at most 128 bytes without control characters.")
    }
    return name
  }
}

extension PostgresConnection {
  /// Queues a child's state and the events of its pairings for the app's destinations.
  /// - Parameters:
  ///   - endsPairing: whether the child lost a pairing: a device with nothing on record keeps no row in the outbox.
  ///   - siblings: the states before of the parents' children: others may have become active.
  nonisolated(nonsending) func tell(
    _ child: String, _ events: [LifecycleEvent], of app: App, in catalog: AppCatalog,
    endsPairing: Bool = false, besides siblings: ChildStates? = nil, at instant: Date
  ) async throws {
    let changed = try await changedChildren(since: siblings, at: instant)
    let changes = [CustomerChange(bundleID: app.bundleID, customer: .device(child))] + changed
    let rows = [
      CustomerChanges.enqueue(changes, in: catalog, endsPairing: endsPairing, at: instant),
      app.hasLifecycleEvents ? LifecycleEventRows.insert(events, in: catalog, at: instant) : nil,
    ].compactMap(\.self)
    guard !rows.isEmpty else { return }
    _ = try await pipeline(rows)
  }
}

extension Features {
  /// The number that a feature allows; `nil` for no limit.
  package func limit(for feature: String) -> Int? {
    switch self[feature] {
    case .unlimited: nil
    case .count(let count): Swift.max(count, 0)
    default: 0
    }
  }
}

extension App {
  /// Whether any tier allows more devices than this.
  fileprivate func sellsMoreDevices(than limit: Int) -> Bool {
    limit < Pairing.mostPairings
      && tiers.values.contains { ($0.features.limit(for: Household.limitFeature) ?? .max) > limit }
  }
}

/// A device that is paired to a customer's device; a row of ``HouseholdRows/plans(of:in:)``.
package struct PairedDevice: Sendable {
  package var childDeviceID: String
  package var name: String?
  package var pairedAt: Date
  /// How many devices that count toward the limit come before it.
  package var place = 0

  /// `active`, or `paused` beyond the limit.
  package func status(limit: Int?) -> String { limit.map { place < $0 } ?? true ? "active" : "paused" }

  package init(_ row: Row) throws {
    childDeviceID = try row.decode("child_device_id")
    name = try row.decode("name")
    pairedAt = try row.decode("paired_at")
  }
}
