import FoundationEssentials
import HTTP
import HTTPTypes
import Postgres
import Subscriptions

/// `…/devices/{deviceID}/children`: the devices that are paired to a customer's, as many as the tier has room for.
///
/// None is ever deleted for want of room: after a downgrade those paired last are paused, and come back with the
/// next upgrade. Which ones are paused follows from the order of pairing and the limit of the moment, so nothing
/// has to be written when a tier changes.
struct Pairing: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let clock: ServiceClock

  /// The feature that says how many. `null` in the configuration: no limit; not there at all: none.
  static let limitFeature = "childDevices"

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

  /// What a customer's device has room for at an instant.
  private struct Room {
    /// `nil`: no limit.
    var limit: Int?
    var tier: String?
  }

  func post(_ request: Request) async throws -> Response {
    try request.requireJSON()
    let (app, device) = try await customer(of: request)
    let body = try request.decodeJSON(Body.self)
    let child = try DeviceID(body.childDeviceID, named: "childDeviceID").name
    let name = try body.name.map(Self.checkName)
    let instant = clock.now()
    let (isNew, paired, room) = try await pool.withTransaction {
      connection async throws -> (Bool, [PairedDevice], Room) in
      let answers = try await connection.pipeline(
        [AdvisoryLock.acquire(.customer, [device])]
          + HoldingsRows.select(users: [], devices: [device])
          + [DeviceRows.select(bundleID: app.bundleID, deviceID: device)])
      let room = try makeRoom(
        answers.dropFirst().prefix(HoldingsRows.count), of: device, in: app, at: instant)
      let paired = try answers.last.map { try $0.map(DeviceRows.decode) } ?? []
      let isNew = !paired.contains { $0.childDeviceID == child }
      if isNew, let limit = room.limit, paired.count >= limit {
        throw ServiceError.deviceLimitReached(limit: limit, moreIsSold: app.sellsMoreDevices(than: limit))
      }
      let write =
        isNew
        ? DeviceRows.insert(child, name: name, bundleID: app.bundleID, deviceID: device, at: instant)
        : DeviceRows.rename(child, name: name, bundleID: app.bundleID, deviceID: device)
      let written = try await connection.pipeline([
        write, DeviceRows.select(bundleID: app.bundleID, deviceID: device),
      ])
      return (isNew, try written[1].map(DeviceRows.decode), room)
    }
    return try answer(isNew ? .created : .ok, paired, room, at: instant)
  }

  func get(_ request: Request) async throws -> Response {
    let (app, device) = try await customer(of: request)
    return try await list(app, device)
  }

  func delete(_ request: Request) async throws -> Response {
    let (app, device) = try await customer(of: request)
    let child = try DeviceID(request.parameters.require("childDeviceID"), named: "childDeviceID").name
    let deleted = try await pool.query(
      DeviceRows.delete(child, bundleID: app.bundleID, deviceID: device))
    guard deleted.affected > 0 else { throw Problem.notFound("No such device is paired.") }
    return try await list(app, device)
  }

  private func list(_ app: App, _ device: String) async throws -> Response {
    let instant = clock.now()
    let answers = try await pool.withConnection { connection in
      try await connection.pipeline(
        HoldingsRows.select(users: [], devices: [device])
          + [DeviceRows.select(bundleID: app.bundleID, deviceID: device)])
    }
    let room = try makeRoom(answers.prefix(HoldingsRows.count), of: device, in: app, at: instant)
    let paired = try answers.last.map { try $0.map(DeviceRows.decode) } ?? []
    return try answer(.ok, paired, room, at: instant)
  }

  private func makeRoom(
    _ answers: some Sequence<Rows>, of device: String, in app: App, at instant: Date
  ) throws -> Room {
    let holdings = try HoldingsRows.decode(answers).holdings(of: .device(device), in: app)
    let entitlements = app.entitlements(of: holdings, for: .device(device), at: instant)
    return Room(limit: entitlements.features.room(for: Self.limitFeature), tier: entitlements.tier)
  }

  private func answer(
    _ status: HTTPResponse.Status, _ paired: [PairedDevice], _ room: Room, at instant: Date
  ) throws -> Response {
    let children = paired.enumerated().map { index, device in
      let isActive = room.limit.map { index < $0 } ?? true
      return Child(
        childDeviceID: device.childDeviceID, name: device.name, pairedAt: device.pairedAt,
        status: isActive ? "active" : "paused")
    }
    return try .json(status, Answer(children: children, limit: room.limit, serverTime: instant))
  }

  private func customer(of request: Request) async throws -> (App, String) {
    let device = try DeviceID(request.parameters.require("deviceID")).name
    let app = try catalog.deviceApp(named: request.query["bundleID"])
    try await authenticator.require(device, of: app, secret: DeviceSecret(of: request))
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
  /// How many of something there may be: `nil` for no limit.
  func room(for feature: String) -> Int? {
    switch self[feature] {
    case .unlimited: nil
    case .count(let count): Swift.max(count, 0)
    default: 0
    }
  }
}

extension App {
  /// Whether any tier has room for more devices than this.
  fileprivate func sellsMoreDevices(than limit: Int) -> Bool {
    tiers.values.contains { ($0.features.room(for: Pairing.limitFeature) ?? .max) > limit }
  }
}
