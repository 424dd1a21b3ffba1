import AppStore
import Configuration
import CoreMetrics
import HTTP
import HTTPTypes
import Logging
import Postgres
import Requests
import Work

/// Devices and their children, grandfathering, the retry of refused premium statuses, the keys of entitlement tokens.
package struct CustomerRoom: Room {
  /// Takes a device's lock with what its secret proves.
  package let deviceAuthenticator: DeviceAuthenticator
  package let grandfathering: Grandfathering
  /// `nil` if the keys are files.
  package let entitlementKeyRefresh: EntitlementKeyRefresh?
  let profileRetry: ProfileRetry
  private let devices: DeviceEntitlements
  private let pairing: Pairing
  private let joining: Joining

  /// - Parameters:
  ///   - keysAreFiles: whether the keys of entitlement tokens are files, and not in the database.
  ///   - profileWriteFailures: counts the failed writes of premium statuses.
  package init(
    catalog: AppCatalog, transactions: CustomerTransactions, charges: DayCharges,
    statusWriter: CustomerStatusWriter, signer: EntitlementSigner, keysAreFiles: Bool,
    verifier: SignedDataVerifier, profileWriteFailures: Counter, rateLimits: ClientRateLimits,
    _ work: WorkContext
  ) {
    let (pool, clock, logger) = (work.pool, work.clock, work.logger)
    let apps = AppOfRequest(catalog: catalog)
    deviceAuthenticator = DeviceAuthenticator(
      catalog: catalog, pool: pool, transactions: transactions, charges: charges, clock: clock)
    grandfathering = Grandfathering(
      pool: pool, transactions: transactions, statusWriter: statusWriter, clock: clock)
    entitlementKeyRefresh =
      keysAreFiles
      ? nil
      : EntitlementKeyRefresh(
        store: EntitlementKeyStore(pool: pool, clock: clock), signer: signer,
        lifetime: catalog.apps.reduce(0) { longest, app in
          longest.flatMap { longest in EntitlementClaims.lifetime(in: app).map { max(longest, $0) } }
        }, clock: clock, logger: logger)
    profileRetry = ProfileRetry(catalog: catalog, failures: profileWriteFailures, work: work)
    devices = DeviceEntitlements(
      apps: apps, pool: pool, authenticator: deviceAuthenticator, signer: signer, clock: clock)
    pairing = Pairing(apps: apps, pool: pool, authenticator: deviceAuthenticator, clock: clock)
    joining = Joining(
      apps: apps, pool: pool, authenticator: deviceAuthenticator, pairing: pairing, verifier: verifier,
      rateLimits: rateLimits, clock: clock)
  }

  package func addRoutes(to router: inout Router) {
    router.on(.get, "/api/v1/devices/{deviceID}/entitlements", devices.get(_:))
    router.on(.post, "/api/v1/devices/{deviceID}/children", maximumBodyLength: 16 << 10, pairing.post(_:))
    router.on(.get, "/api/v1/devices/{deviceID}/children", pairing.get(_:))
    router.on(.delete, "/api/v1/devices/{deviceID}/children/{childDeviceID}", pairing.delete(_:))
    router.on(
      .post, "/api/v1/devices/{deviceID}/pairing-codes", maximumBodyLength: 1 << 10, joining.makeCode(_:))
    router.on(.put, "/api/v1/devices/{deviceID}/parent", maximumBodyLength: 16 << 10, joining.join(_:))
    router.on(.get, "/api/v1/devices/{deviceID}/parent", joining.get(_:))
  }

  package var jobs: [BackgroundJob] {
    [profileRetry.job] + [entitlementKeyRefresh?.job].compactMap(\.self)
  }
}
