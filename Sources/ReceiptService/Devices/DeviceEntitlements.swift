import Foundation
import HTTP
import HTTPTypes
import JSON
import Postgres
import Subscriptions

/// `GET /api/v1/devices/{deviceID}/entitlements`: a device's entitlements, for an app whose customers are devices.
struct DeviceEntitlements: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let signer: EntitlementSigner
  let clock: ServiceClock

  private struct Answer: JSONWritable {
    var entitlements: EntitlementsResponse
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
    let customerRecords = try await pool.customerRecords(devices: [device]).customerRecords(
      of: .device(device), in: app)
    return .json(
      .ok,
      Answer(
        entitlements: EntitlementsResponse(
          app.entitlements(of: customerRecords, for: .device(device), at: instant), of: app,
          for: .device(device),
          at: instant, signedBy: signer),
        serverTime: instant))
  }
}

extension AppCatalog {
  /// The app of a request from a device.
  /// - Parameter bundleID: from the request; may be missing if only one app has devices as customers.
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
