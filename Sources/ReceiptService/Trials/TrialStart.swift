import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import JSON
import Postgres
import Subscriptions

/// `POST /api/v1/trials`: the first launch starts the app's own free time, once per device and once per Apple
/// Account.
///
/// The account is the signed app transaction's `appTransactionId`, which stays the same over reinstalls and new
/// devices: a second device of the account goes on with the trial that runs. An app transaction without that field starts
/// no trial, because a device id is the client's own word. The clock is the server's.
struct TrialStart: Sendable {
  let proofs: ProofVerifier
  let catalog: AppCatalog
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let signer: EntitlementSigner
  let clock: ServiceClock
  let metrics: ServiceMetrics

  private struct Body: Decodable {
    var deviceID: String
    var bundleID: String?
    var signedAppTransaction: String
  }

  private struct Answer: JSONWritable {
    var trial: TrialAnswer
    var entitlements: EntitlementsAnswer
    var serverTime: Date

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("entitlements", entitlements)
        json.member("serverTime", serverTime)
        json.member("success", true)
        json.member("trial", trial)
      }
    }
  }

  private struct TrialAnswer: JSONWritable {
    var startedAt: Date
    /// `null` while the app asks nobody for a subscription: the trial stands still.
    var endsAt: Date?

    func write(to json: inout JSONWriter) {
      json.object { json in
        json.member("endsAt", endsAt)
        json.member("startedAt", startedAt)
      }
    }
  }

  func respond(to request: Request) async throws -> Response {
    try request.requireJSON()
    let body = try request.decodeJSON(Body.self)
    let secret = try DeviceSecret(of: request)
    let device = try DeviceID(body.deviceID).name
    let app = try catalog.deviceApp(named: body.bundleID)
    guard let allowance = app.trial else { throw Problem.invalidRequest("This app has no trial.") }
    let signed = try proofs.appTransaction(body.signedAppTransaction, of: app)
    // The sandbox never grants in production, nor does its free time.
    if signed.payload.receiptType != .production, !app.sandboxGrants.include(.device(device)) {
      throw ServiceError.wrongEnvironment("The app transaction is of the sandbox, which opens nothing here.")
    }

    try await authenticator.require(device, of: app, secret: secret, proof: AccountProof(signed))
    let instant = clock.now()
    let isNew = try await start(
      allowance, device: device, account: signed.payload.appTransactionId?.storable,
      environment: signed.payload.receiptType.rawValue.storable, of: app, at: instant)
    if isNew, signed.payload.receiptType == .production { metrics.ledger.recordTrial(of: app) }
    let holdings = try await pool.holdings(devices: [device]).holdings(of: .device(device), in: app)
    guard let trial = holdings.trial else { throw ServiceError.internalError }
    return .json(
      isNew ? .created : .ok,
      Answer(
        trial: TrialAnswer(startedAt: trial.startedAt, endsAt: trial.end(honoring: holdings.freeTime)),
        entitlements: EntitlementsAnswer(
          app.entitlements(of: holdings, for: .device(device), at: instant), of: app, for: .device(device),
          at: instant, signedBy: signer),
        serverTime: instant))
  }

  /// - Returns: whether a trial began now.
  /// - Throws: 400 `invalid_request` where a trial would begin and no account is known to count it for.
  private func start(
    _ allowance: Allowance, device: String, account: String?, environment: String, of app: App,
    at instant: Date
  ) async throws -> Bool {
    try await pool.withTransaction { connection in
      // Both names are held, so that neither a second launch nor a second device comes between.
      let names = [device, account.map { "\(app.bundleID)/\($0)" }].compactMap(\.self)
      let answers = try await connection.pipeline([
        AdvisoryLock.acquire(.customer, Set(names)),
        TrialRows.select(
          bundleID: app.bundleID, deviceID: device, appTransactionID: account, environment: environment),
      ])
      let found = try answers[1].map(TrialRows.decode)
      let own = found.first { $0.deviceID == device }
      let accounts = account.flatMap { account in found.first { $0.appTransactionID == account } }
      switch (own, accounts) {
      case (let own?, nil):
        guard let account, own.appTransactionID == nil else { return false }
        _ = try await connection.query(TrialRows.setAccount(account, of: own))
        return false
      case (_?, _?): return false
      case (nil, let started?):
        try await write(
          TrialRows.continue(started, bundleID: app.bundleID, deviceID: device), device, of: app, at: instant,
          connection)
        return false
      case (nil, nil):
        guard let account else { throw Self.noAccount }
        let trial = Trial(startedAt: instant, endsAt: instant.addingTimeInterval(allowance.duration))
        try await write(
          TrialRows.start(
            trial, bundleID: app.bundleID, deviceID: device, appTransactionID: account,
            environment: environment),
          device, of: app, at: instant, connection)
        return true
      }
    }
  }

  private static let noAccount = Problem.invalidRequest(
    "'signedAppTransaction' has no appTransactionId, which a trial is counted by. Call StoreKit's "
      + "AppTransaction.refresh() and send the app transaction that it returns.")

  /// What a device may do from now on is told elsewhere too.
  private func write(
    _ row: Postgres.Query, _ device: String, of app: App, at instant: Date, _ connection: PostgresConnection
  ) async throws {
    let change = CustomerChange(bundleID: app.bundleID, customer: .device(device))
    let told = CustomerChanges.enqueue([change], in: catalog, at: instant)
    _ = try await connection.pipeline([row] + [told].compactMap(\.self))
  }
}
