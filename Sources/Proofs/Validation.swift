import AppStore
import Authentication
import Customers
import Foundation
import HTTP
import HTTPTypes
import JSON
import Ledger
import Postgres
import Requests
import Subscriptions
import Work

/// `POST /api/v1/subscriptions/validate`: verifies a client's purchase and returns its entitlements.
struct Validation: Sendable {
  let proofs: ProofVerifier
  let bareIDs: BareIDs
  let authenticator: Authenticator
  let deviceAuthenticator: DeviceAuthenticator
  let ledger: LedgerWriter
  let oldProofs: OldProofs
  let apps: AppOfRequest
  let pool: PostgresPool
  let signer: EntitlementSigner
  let rateLimits: ClientRateLimits
  let clock: ServiceClock
  let outcomes: OutcomeMetrics

  func respond(to request: Request) async throws -> Response {
    var app: App?
    do {
      let response = try await respond(to: request, settingApp: &app)
      outcomes.validated(app)
      return response
    } catch {
      outcomes.validated(app, error)
      throw error
    }
  }

  /// - Parameter app: set as soon as the purchase's app is verified, for the metrics.
  private func respond(to request: Request, settingApp app: inout App?) async throws -> Response {
    try request.requireJSON()
    let body = try request.readJSON(ValidateRequest.self)
    let secret = try DeviceSecret(of: request)
    let purchase = try await prove(body, request)
    app = purchase.app
    let appTransaction = try body.signedAppTransaction.map {
      try proofs.verifier.appTransaction($0, of: purchase.app)
    }
    let possession = Possession(of: purchase, body, appTransaction)
    if purchase.app.customer == .user {
      let user = try await authenticator.user(of: request, in: purchase.app)
      return try await claim(purchase, for: user.map(Customer.user), nil, possession)
    }
    guard let device = try body.deviceID.map({ try DeviceID($0).name }) else {
      return try await claim(purchase, for: nil, nil, possession)
    }
    do {
      let assumed = DeviceAdmission.assumed(device, in: purchase.app, secret: secret)
      return try await claim(purchase, for: .device(device), assumed, possession)
    } catch is DeviceSecretChanged {}
    return try await DeviceSecretChanged.retrying {
      let admission = try await admission(of: device, body, secret, purchase, appTransaction)
      return try await claim(purchase, for: admission.map { .device($0.device) }, admission, possession)
    }
  }

  /// Records the purchase for the claimant.
  private func claim(
    _ purchase: ProvenPurchase, for claimant: Customer?, _ admission: DeviceAdmission?,
    _ possession: Possession
  ) async throws -> Response {
    if case .user(let user) = claimant { try rateLimits.admit(user: user) }

    let instant = clock.now()
    // A device of another Apple Account gets nothing, also of a purchase that has no owner yet.
    let isForeign = possession == .disproven && claimant?.deviceID != nil
    var claim = claimant.map { customer in
      Claim(
        by: customer, isForeign ? .foreign : possession.claim(in: purchase.app), admission: admission)
    }
    if let claimant, let strength = claim?.strength {
      claim?.strength = try await bareIDs.strength(strength, of: purchase, for: claimant)
    }
    let entry = LedgerEntry(purchase, because: .proof(claim), instant: instant)
    let receipt = try await oldProofs.confirmed(try await ledger.record(entry), of: entry)
    guard purchase.app.product(named: purchase.productID) != nil else {
      throw ServiceError.unknownProduct(purchase.productID)
    }
    if receipt.isContradiction {
      throw ServiceError.wrongApp("The purchase is known as one of another app or environment.")
    }
    if isForeign { throw ServiceError.belongsToAnotherAccount }
    if case .refused = receipt.claim {
      throw purchase.app.customer == .device
        ? ServiceError.belongsToAnotherDevice : ServiceError.belongsToAnotherCustomer
    }
    // A device is answered and not bound: it gets the purchase with a later proof. A user is refused.
    let isPostponed = if case .postponed = receipt.claim { true } else { false }
    if isPostponed, purchase.app.customer == .user { throw ServiceError.movedTooOften }
    // The same answer whether the purchase has an owner or none: it tells nothing of another customer.
    if let claimant, claim?.strength == .name || claim?.strength == .nothing,
      receipt.subscription?.customers.contains(claimant) == false
    {
      throw ServiceError.needsProof
    }
    if possession == .unproven, receipt.claim.isJoin(of: claimant) {
      outcomes.joinedByBareID(purchase.app)
    }
    guard let stored = receipt.subscription else { throw ServiceError.internalError }

    return Response.json(
      .ok,
      ValidationResponse(
        code: isPostponed ? "device_limit_reached" : nil,
        subscription: SubscriptionResponse(stored.subscription, at: instant),
        entitlements: try await entitlements(receipt, stored, for: claimant, in: purchase.app, at: instant),
        serverTime: instant))
  }

  private func prove(_ body: ValidateRequest, _ request: Request) async throws -> ProvenPurchase {
    switch try body.proof() {
    case .signedTransaction(let jws):
      return try proofs.purchase(
        signedTransaction: jws, signedRenewalInfo: body.signedRenewalInfo, bundleID: body.bundleID)
    case .transactionID(let id):
      return try await bareIDs.purchase(
        id, of: apps.app(of: request, named: body.bundleID), for: request)
    case .receipt(let text):
      try rateLimits.admit(receiptOf: text.utf8.count, of: request)
      let receipt = try ReceiptProof(text, bundleID: body.bundleID, in: apps)
      return try await bareIDs.purchase(receipt.transactionID, of: receipt.app, for: request)
    }
  }

  /// How a device's request was admitted.
  ///
  /// `nil` for a device whose secret the request lacks: the signature proves the purchase, but not that the caller is
  /// the device. The purchase is stored, and bound later, when the device sends it with the secret.
  private func admission(
    of device: String, _ body: ValidateRequest, _ secret: DeviceSecret?, _ purchase: ProvenPurchase,
    _ appTransaction: Signed<AppTransaction>?
  ) async throws -> DeviceAdmission? {
    // A transaction looked up by a bare id proves nothing about the caller.
    let proof =
      body.signedTransaction == nil ? appTransaction.flatMap { AccountProof($0) } : AccountProof(purchase)
    return try await deviceAuthenticator.admission(
      of: device, in: purchase.app, secret: secret, proof: proof)
  }

  /// The caller's entitlements. A device sees its own ones, as in `GET …/entitlements`: a child's what its parent has.
  /// Another caller that is not the purchase's customer sees what this purchase opens, and nothing of the owner's other
  /// purchases.
  private func entitlements(
    _ receipt: LedgerReceipt, _ stored: StoredSubscription, for claimant: Customer?, in app: App,
    at instant: Date
  ) async throws -> EntitlementsResponse {
    let isCustomer = claimant.map { stored.customers.contains($0) } ?? false
    if app.limitsDevices, let device = claimant?.deviceID {
      let access =
        if isCustomer, receipt.hasParent == false, let own = receipt.customerRecords {
          DeviceAccess(withoutParents: device, own, in: app, at: instant)
        } else { try await pool.access(of: device, in: app, at: instant) }
      return EntitlementsResponse(access.entitlements, of: app, for: claimant, at: instant, signedBy: signer)
    }
    var own = isCustomer ? receipt.customerRecords : nil
    if !isCustomer, let claimant, let device = claimant.deviceID {
      own = try await pool.customerRecords(devices: [device]).customerRecords(
        of: claimant, in: app, at: instant)
    }
    let shown = CustomerRecords(
      subscriptions: [stored.asRecord(for: claimant)], freeAccess: receipt.freeAccess)
    return EntitlementsResponse(
      app.entitlements(of: own ?? shown, for: claimant, at: instant), of: app,
      for: isCustomer || claimant?.deviceID != nil ? claimant : nil, at: instant, signedBy: signer)
  }
}

extension ClaimOutcome {
  /// Whether the claimant got a purchase that another device has or had.
  fileprivate func isJoin(of claimant: Customer?) -> Bool {
    switch self {
    case .moved(let owner, _): owner.customer == claimant && claimant?.deviceID != nil
    case .shared(_, let customer, _): customer == claimant
    case .settled, .refused, .postponed: false
    }
  }
}

extension LedgerEntry {
  /// The entry of a proven purchase.
  package init(_ purchase: ProvenPurchase, because cause: Cause, instant: Date) {
    self.init(
      app: purchase.app, originalTransactionID: purchase.originalTransactionID,
      transactions: purchase.transactions, renewals: purchase.renewals, because: cause, instant: instant)
  }
}

/// The body of `POST /api/v1/subscriptions/validate`.
struct ValidateRequest: Sendable {
  var signedTransaction: String?
  var transactionID: String?
  var receipt: String?
  var signedRenewalInfo: String?
  var signedAppTransaction: String?
  var deviceID: String?
  var bundleID: String?

  /// The form in which a client proves a purchase.
  enum Proof: Sendable {
    case signedTransaction(String)
    case transactionID(String)
    case receipt(String)
  }

  /// The request's only proof.
  func proof() throws(Problem) -> Proof {
    switch (signedTransaction, transactionID, receipt) {
    case (let jws?, nil, nil): return .signedTransaction(jws)
    case (nil, let id?, nil):
      guard id.isTransactionID else {
        throw .invalidRequest("'transactionID' must be 1 to 20 digits.")
      }
      return .transactionID(id)
    case (nil, nil, let receipt?): return .receipt(receipt)
    default:
      throw .invalidRequest(
        "Exactly one of 'signedTransaction', 'transactionID' and 'receipt' is needed.")
    }
  }
}

extension ValidateRequest: JSONReadable {
  private enum Member: String, CaseIterable {
    case signedTransaction, transactionID, receipt, signedRenewalInfo, signedAppTransaction, deviceID,
      bundleID
  }

  private static let names = JSONNames<Member>()

  init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .signedTransaction: signedTransaction = try json.readOrNull()
      case .transactionID: transactionID = try json.readOrNull()
      case .receipt: receipt = try json.readOrNull()
      case .signedRenewalInfo: signedRenewalInfo = try json.readOrNull()
      case .signedAppTransaction: signedAppTransaction = try json.readOrNull()
      case .deviceID: deviceID = try json.readOrNull()
      case .bundleID: bundleID = try json.readOrNull()
      }
    }
  }
}

/// The response of `POST /api/v1/subscriptions/validate`.
struct ValidationResponse: Sendable {
  /// `device_limit_reached` for a device that proved the purchase and gets no place in it now; otherwise `nil`, and not written.
  var code: String?
  var subscription: SubscriptionResponse
  var entitlements: EntitlementsResponse
  var serverTime: Date
}

extension ValidationResponse: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("code", ifPresent: code)
      json.member("entitlements", entitlements)
      json.member("serverTime", serverTime)
      json.member("subscription", subscription)
      json.member("success", true)
    }
  }
}
