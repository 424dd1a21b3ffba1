import AppStore
import Authentication
import Configuration
import Customers
import Deliveries
import Foundation
import HTTP
import HTTPTypes
import JSON
import Ledger
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// `POST /api/v1/trials`: starts the app's own trial at the first launch, once per device and per Apple Account.
///
/// The account is the signed app transaction's `appTransactionId`, which survives reinstalls and new devices: another
/// device of the account joins the running trial. An app transaction without it starts no trial, because the client
/// chooses its device id freely. As many devices as share a purchase share a trial, by the same rules
/// (``DeviceSharing``); one more replaces the device that joined longest ago, a limited number of times within 24 hours
/// (``MoveCount``). Times are those of the server's clock.
struct TrialStart: Sendable {
  let proofs: ProofVerifier
  let catalog: AppCatalog
  let pool: PostgresPool
  let authenticator: DeviceAuthenticator
  let signer: EntitlementSigner
  let clock: ServiceClock
  let metrics: LedgerMetrics

  private struct Body: Decodable {
    var deviceID: String
    var bundleID: String?
    var signedAppTransaction: String
  }

  private struct Answer: JSONWritable {
    var trial: TrialAnswer
    var entitlements: EntitlementsResponse
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
    /// `null` while free access is on: the trial is suspended.
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
    let (app, signed) = try proofs.appTransaction(
      body.signedAppTransaction, bundleID: body.bundleID, customers: .device)
    guard let allowance = app.trial else { throw Problem.invalidRequest("This app has no trial.") }
    let instant = clock.now()
    // A sandbox app transaction grants nothing, except to testers.
    if signed.payload.receiptType != .production, !app.sandboxGrants.include(.device(device), at: instant) {
      throw ServiceError.wrongEnvironment(
        "The app transaction is of the sandbox, which grants no access here.")
    }

    let isNew = try await start(
      allowance, device: device, secret: secret, showing: signed, of: app, at: instant)
    if isNew, signed.payload.receiptType == .production { metrics.recordTrial(of: app) }
    // A child's device has what its parent has, as in `GET …/entitlements`, also where it has a former trial.
    let access = try await pool.access(of: device, in: app, at: instant)
    // Other devices of the account may have taken the place meanwhile.
    guard let trial = access.records.trial else {
      throw ServiceError.trialJoinedTooOften(limit: app.devicesPerPurchase, wait: 1)
    }
    return .json(
      isNew ? .created : .ok,
      Answer(
        trial: TrialAnswer(
          startedAt: trial.startedAt, endsAt: trial.end(honoring: access.records.freeAccess)),
        entitlements: EntitlementsResponse(
          access.entitlements, of: app, for: .device(device), at: instant, signedBy: signer),
        serverTime: instant))
  }

  /// - Returns: whether a new trial started.
  /// - Throws: 400 `invalid_request` for a new trial without an account, 409 `device_limit_reached`, `paired_device`
  ///   and `trials_paused`; 401 `unauthenticated`.
  private func start(
    _ allowance: Allowance, device: String, secret: DeviceSecret?, showing signed: Signed<AppTransaction>,
    of app: App, at instant: Date
  ) async throws -> Bool {
    let account = signed.payload.appTransactionId?.storable
    let environment = signed.payload.receiptType.rawValue.storable
    // Lock the device and the account against a concurrent launch on this or another device.
    return try await authenticator.change(
      device, of: app, secret: secret, proof: AccountProof(signed), isOfTrial: true,
      alsoLocking: [account.map { "\(app.bundleID)/\($0)" }].compactMap(\.self),
      reading: [
        TrialRows.select(
          bundleID: app.bundleID, deviceID: device, appTransactionID: account, environment: environment),
        HouseholdRows.isChild(device, in: app),
      ]
    ) { connection, answers in
      let isChild = try answers.last?[0].decode("is_child", as: Bool.self) ?? false
      let trials = try answers.first.map { try $0.map(TrialRows.DeviceTrial.init) } ?? []
      let own = trials.first { $0.deviceID == device }
      let accountTrial = trials.first(where: \.isOfAccount)
      switch (own, accountTrial) {
      case (let own?, nil):
        // A joined trial is of the account that began it, also where the device shows another account.
        guard let account, own.originalID == own.id, own.appTransactionID == nil else { return false }
        _ = try await connection.query(TrialRows.setAccount(account, of: own))
        return false
      case (_?, _?): return false
      case (nil, _) where isChild: throw ServiceError.pairedDevice
      case (nil, let started?):
        try await join(started, device, showing: account, of: app, at: instant, connection)
        return false
      case (nil, nil):
        guard let account else { throw Self.noAccount }
        guard app.newTrials == .open else { throw ServiceError.trialsPaused }
        let trial = Trial(startedAt: instant, endsAt: instant.addingTimeInterval(allowance.duration))
        let id = UUID()
        try await write(
          [
            TrialRows.start(
              trial, id: id, bundleID: app.bundleID, deviceID: device, appTransactionID: account,
              environment: environment)
          ], [device], of: app, at: instant, connection)
        let started = DueTrial(id: id, deviceID: device, environment: environment, trial: trial)
        if app.hasLifecycleEvents,
          let event = LifecycleEventRows.insert([started.start(in: app)], in: catalog, at: instant)
        {
          _ = try await connection.query(event)
        }
        return true
      }
    }
  }

  /// Joins a device to a trial, instead of another device if it has no room.
  /// - Throws: 409 `device_limit_reached`.
  private func join(
    _ started: TrialRows.DeviceTrial, _ device: String, showing account: String?, of app: App,
    at instant: Date,
    _ connection: PostgresConnection
  ) async throws {
    let trial = started.originalID
    // An erasure of one of its devices locks the account by its name in the trial, which is another one where the
    // account was erased.
    if let stored = started.appTransactionID, stored != account {
      _ = try await connection.query(AdvisoryLock.acquire(.customer, ["\(app.bundleID)/\(stored)"]))
    }
    let members = try await connection.query(TrialRows.members(of: trial)).map(TrialRows.Member.init)
    let moves = members.first?.moves
    let sharing = DeviceSharing(
      limit: app.devicesPerPurchase, mayJoin: true, moves: moves, mostMoves: app.devicesPerPurchase,
      at: instant)
    // A trial has no owner: any of its devices stands for one.
    let owner = members.first.map { Ownership(customer: .device($0.holder.deviceID), reason: .firstClaim) }
    let claim = sharing.claim(by: .device(device), owner: owner, holders: members.map(\.holder))
    if case .postponed = claim.outcome {
      throw ServiceError.trialJoinedTooOften(limit: app.devicesPerPurchase, wait: moves.wait(at: instant))
    }
    let children = try await connection.childStates(
      of: members.map(\.holder.deviceID) + [device], in: app, at: instant)
    var rows: [Postgres.Query] = []
    var devices = [device]
    for member in members {
      if let holder = claim.holders.first(where: { $0.deviceID == member.holder.deviceID }) {
        if holder.displaced != member.holder.displaced {
          rows.append(TrialRows.setDisplaced(holder, of: member))
        }
      } else if let joining = claim.holders.first(where: { $0.deviceID == device }) {
        rows.append(TrialRows.replace(member, by: joining))
        rows.append(DeviceRows.move(from: member.holder.deviceID, to: device, by: nil, in: app, at: instant))
        devices.append(member.holder.deviceID)
      }
    }
    if claim.isCounted { rows.append(TrialRows.count(moves.counting(moveAt: instant), in: trial)) }
    if devices == [device] {
      rows.append(TrialRows.join(trial, bundleID: app.bundleID, deviceID: device, at: instant))
    }
    try await write(rows, devices, children, of: app, at: instant, connection)
  }

  private static let noAccount = Problem.invalidRequest(
    "'signedAppTransaction' has no appTransactionId, which a trial needs. Call StoreKit's "
      + "AppTransaction.refresh() and send the app transaction that it returns.")

  /// Writes the trial and queues the devices' changes for webhooks and CloudKit.
  /// - Parameter children: the states before of the children of all devices of the trial: their places may change with
  ///   those of the joining device.
  private func write(
    _ rows: [Postgres.Query], _ devices: [String], _ children: ChildStates? = nil, of app: App,
    at instant: Date, _ connection: PostgresConnection
  ) async throws {
    var rows = rows
    var changes = devices.map { CustomerChange(bundleID: app.bundleID, customer: .device($0)) }
    if let children {
      _ = try await connection.pipeline(rows)
      rows = []
      changes += try await connection.changedChildren(since: children, at: instant)
    }
    let events = CustomerChanges.enqueue(changes, in: catalog, at: instant)
    _ = try await connection.pipeline(rows + [events].compactMap(\.self))
  }
}
