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
/// A lower limit deletes no device: the newest pairings beyond it are paused until the limit rises. The order of pairing
/// and the current limit decide which ones, so a change of tier writes nothing.
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

  /// The feature that holds the limit. `null` in the configuration means no limit; without the feature it is 0.
  package static let limitFeature = "childDevices"

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
      let (paired, limit) = try await children(of: device, in: app, at: instant, connection)
      let isNew = !paired.contains { $0.childDeviceID == child }
      let most = min(limit ?? Self.mostPairings, Self.mostPairings)
      if isNew, paired.count >= most {
        throw ServiceError.deviceLimitReached(limit: most, moreIsSold: app.sellsMoreDevices(than: most))
      }
      if isNew {
        // Clients can invent devices, so the pairings of those with nothing on record are charged to the app's day.
        let row = try await connection.query(
          DeviceSecretRows.chargesPairing(of: device, with: child, in: app, at: instant))[0]
        if try row.decode("is_charged", as: Bool.self) {
          guard try row.decode("is_allowed", as: Bool.self), isCharged != false else {
            throw ServiceError.noPairingsLeft(wait: Day(of: instant).end.timeIntervalSince(instant))
          }
          if isCharged == nil { throw DayChargeNeeded(most: DeviceSecretRows.newPerDay(isProven: false)) }
        }
      }
      let write =
        isNew
        ? DeviceRows.insert(child, name: name, bundleID: app.bundleID, deviceID: device, at: instant)
        : DeviceRows.rename(child, name: name, bundleID: app.bundleID, deviceID: device)
      let written = try await connection.pipeline([
        write, DeviceRows.select(bundleID: app.bundleID, deviceID: device),
      ])
      return (isNew, try written[1].map(PairedDevice.init), limit)
    }
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
      try await connection.query(DeviceRows.delete(child, bundleID: app.bundleID, deviceID: device))
    }
    guard deleted.affected > 0 else { throw Problem.notFound("No such device is paired.") }
    return try await list(app, device)
  }

  private func list(_ app: App, _ device: String) async throws -> Response {
    let instant = clock.now()
    let (paired, limit) = try await pool.withConnection { connection in
      try await children(of: device, in: app, at: instant, connection)
    }
    return try answer(.ok, paired, limit, at: instant)
  }

  /// The paired devices, and how many the device's tier allows.
  private nonisolated(nonsending) func children(
    of device: String, in app: App, at instant: Date, _ connection: PostgresConnection
  ) async throws -> (paired: [PairedDevice], limit: Int?) {
    var reads = Statements()
    let pairedReads = reads.add(
      DeviceRows.select(bundleID: app.bundleID, deviceID: device), reading: PairedDevice.init)
    let recordReads = AllCustomerRecordReads(devices: [device], in: &reads)
    let answers = try await connection.answers(to: reads)
    let records = try recordReads.records(in: answers).customerRecords(
      of: .device(device), in: app, at: instant)
    let entitlements = app.entitlements(of: records, for: .device(device), at: instant)
    return (try answers[pairedReads], entitlements.features.limit(for: Self.limitFeature))
  }

  private func answer(
    _ status: HTTPResponse.Status, _ paired: [PairedDevice], _ limit: Int?, at instant: Date
  ) throws -> Response {
    let children = paired.enumerated().map { index, device in
      Child(
        childDeviceID: device.childDeviceID, name: device.name, pairedAt: device.pairedAt,
        status: PairedDevice.status(at: index, limit: limit))
    }
    return try .json(status, Answer(children: children, limit: limit, serverTime: instant))
  }

  private func customer(of request: Request) throws -> (App, String) {
    let device = try DeviceID(request.parameters.require("deviceID")).name
    let app = try apps.app(of: request, named: request.query["bundleID"], customers: .device)
    return (app, device)
  }

  private static func checkName(_ name: String) throws(Problem) -> String {
    guard name.utf8.count <= 128, name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw .invalidRequest("'name' must be at most 128 bytes without control characters.")
    }
    return name
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
      && tiers.values.contains { ($0.features.limit(for: Pairing.limitFeature) ?? .max) > limit }
  }
}

/// A device that is paired to a customer's device; a row of ``DeviceRows/select(bundleID:deviceID:)``.
package struct PairedDevice: Sendable {
  package var childDeviceID: String
  package var name: String?
  package var pairedAt: Date

  /// The status of the device that was paired as the `index`-th: `active`, or `paused` beyond the limit.
  package static func status(at index: Int, limit: Int?) -> String {
    limit.map { index < $0 } ?? true ? "active" : "paused"
  }

  package init(_ row: Row) throws {
    childDeviceID = try row.decode("child_device_id")
    name = try row.decode("name")
    pairedAt = try row.decode("paired_at")
  }
}
