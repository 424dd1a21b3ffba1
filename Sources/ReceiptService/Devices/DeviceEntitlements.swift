import FoundationEssentials
import HTTP
import HTTPTypes
import JSON
import Postgres
import Subscriptions

/// `GET /api/v1/devices/{deviceID}/entitlements`: what a device may do, for an app whose customers are devices.
struct DeviceEntitlements: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let signer: EntitlementSigner
  let clock: ServiceClock

  private struct Answer: JSONWritable {
    var entitlements: EntitlementsAnswer
    var serverTime: Date

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("entitlements", entitlements)
        json.member("serverTime", serverTime)
      }
    }
  }

  func get(_ request: Request) async throws -> Response {
    let device = try DeviceID(request.parameters.require("deviceID")).name
    let app = try catalog.deviceApp(named: request.query["bundleID"])
    try await authenticator.require(device, of: app, secret: DeviceSecret(of: request))
    let instant = clock.now()
    let holdings = try await pool.holdings(devices: [device]).holdings(of: .device(device), in: app)
    return .json(
      .ok,
      Answer(
        entitlements: EntitlementsAnswer(
          app.entitlements(of: holdings, for: .device(device), at: instant), of: app, for: .device(device),
          at: instant, signedBy: signer),
        serverTime: instant))
  }
}

extension AppCatalog {
  /// The app that a device means.
  /// - Parameter bundleID: as the request says; may be missing where one app only has devices.
  /// - Throws: 422 `wrong_app`, 400 `invalid_request`.
  func deviceApp(named bundleID: String?) throws(Problem) -> App {
    let candidates = apps.filter { $0.customer == .device }
    if let bundleID {
      guard let app = candidates.first(where: { $0.bundleID == bundleID }) else {
        throw ServiceError.wrongApp("No app with this 'bundleID' has devices for customers.")
      }
      return app
    }
    guard let app = candidates.first, candidates.count == 1 else {
      throw .invalidRequest(
        candidates.isEmpty
          ? "No app here has devices for customers."
          : "'bundleID' is needed, because several apps have devices for customers.")
    }
    return app
  }
}
