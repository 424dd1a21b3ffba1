import AppStore
import Authentication
import Configuration
import Customers
import HTTP
import HTTPTypes
import Ledger
import Logging
import Postgres
import Requests
import Work

/// The routes on which clients prove purchases, and the job that asks the App Store about old proofs.
package struct ProofRoom: Room {
  /// Verifies what a client sends, or a file has.
  package let verifier: ProofVerifier
  /// Asks about purchases that an old proof opened.
  package let oldProofs: OldProofs
  private let validation: Validation
  private let profiles: ProfileSync
  private let trials: TrialStart

  /// - Parameters:
  ///   - apis: the API of each app that has a key, by bundle id, for requests.
  ///   - patientAPIs: the same APIs for jobs, which wait longer and need current data.
  package init(
    verifier signatures: SignedDataVerifier, catalog: AppCatalog, apis: [String: AppStoreServerAPI],
    patientAPIs: [String: AppStoreServerAPI], authenticator: Authenticator,
    deviceAuthenticator: DeviceAuthenticator, ledger: LedgerWriter,
    grandfathering: Grandfathering, signer: EntitlementSigner, rateLimits: ClientRateLimits,
    outcomes: OutcomeMetrics, metrics: LedgerMetrics, _ work: WorkContext
  ) {
    let (pool, clock, logger) = (work.pool, work.clock, work.logger)
    let apps = AppOfRequest(catalog: catalog)
    verifier = ProofVerifier(verifier: signatures, apps: apps)
    oldProofs = OldProofs(
      lookup: StoreLookup(apis: patientAPIs, verifier: signatures, logger: logger), ledger: ledger,
      catalog: catalog, work: work)
    let bareIDs = BareIDs(
      store: StoreLookup(apis: apis, verifier: signatures, logger: logger), pool: pool, rateLimits: rateLimits
    )
    validation = Validation(
      proofs: verifier, bareIDs: bareIDs,
      authenticator: authenticator, deviceAuthenticator: deviceAuthenticator, ledger: ledger,
      oldProofs: oldProofs, apps: apps, pool: pool, signer: signer, rateLimits: rateLimits, clock: clock,
      outcomes: outcomes)
    profiles = ProfileSync(
      proofs: verifier, bareIDs: bareIDs, apps: apps, authenticator: authenticator, ledger: ledger,
      oldProofs: oldProofs, pool: pool, grandfathering: grandfathering, signer: signer,
      rateLimits: rateLimits,
      clock: clock,
      outcomes: outcomes)
    trials = TrialStart(
      proofs: verifier, catalog: catalog, pool: pool, authenticator: deviceAuthenticator, signer: signer,
      clock: clock, metrics: metrics)
  }

  package func addRoutes(to router: inout Router) {
    router.on(
      .post, "/api/v1/subscriptions/validate", maximumBodyLength: 256 << 10, validation.respond(to:))
    router.on(.put, "/api/v1/profiles/{userID}/premium", maximumBodyLength: 2 << 20, profiles.put(_:))
    router.on(.get, "/api/v1/profiles/{userID}/premium", profiles.get(_:))
    router.on(.post, "/api/v1/trials", maximumBodyLength: 64 << 10, trials.respond(to:))
  }

  package var jobs: [BackgroundJob] { [oldProofs.job] }
}
