import Foundation
import HTTP
import HTTPTypes
import JSON
import Postgres
import Requests
import Subscriptions
import Work

/// `GET /api/v1/devices/{deviceID}/entitlements`: a device's entitlements, for an app whose customers are devices.
struct DeviceEntitlements: Sendable {
  let apps: AppOfRequest
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let signer: EntitlementSigner
  let clock: ServiceClock

  init(
    apps: AppOfRequest, pool: PostgresPool, authenticator: DeviceAuthenticator, signer: EntitlementSigner,
    clock: ServiceClock
  ) {
    self.apps = apps
    self.pool = pool
    self.authenticator = authenticator
    self.signer = signer
    self.clock = clock
  }

  private struct Answer: JSONWritable {
    var entitlements: EntitlementsResponse
    /// For a child's device alone.
    var pairing: PairingResponse?
    var serverTime: Date

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("entitlements", entitlements)
        json.member("pairing", ifPresent: pairing)
        json.member("serverTime", serverTime)
      }
    }
  }

  package func get(_ request: Request) async throws -> Response {
    let device = try DeviceID(request.parameters.require("deviceID")).name
    let app = try apps.app(of: request, named: request.query["bundleID"], customers: .device)
    try await authenticator.require(device, of: app, secret: DeviceSecret(of: request))
    let instant = clock.now()
    let access = try await pool.access(of: device, in: app, at: instant)
    return .json(
      .ok,
      Answer(
        entitlements: EntitlementsResponse(
          access.entitlements, of: app, for: .device(device), at: instant, signedBy: signer),
        pairing: access.childState.map(PairingResponse.init), serverTime: instant))
  }
}
