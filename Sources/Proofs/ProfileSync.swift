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

/// `PUT` and `GET /api/v1/profiles/{userID}/premium`: stores the device's transactions, returns the user's premium status.
///
/// A client may also send what it would write into `profiles` by itself (`premium_original_transaction_id`; the other
/// two columns are not believed): it counts as a bare transaction id at `validate` does.
struct ProfileSync: Sendable {
  let proofs: ProofVerifier
  let bareIDs: BareIDs
  let apps: AppOfRequest
  let authenticator: Authenticator
  let ledger: LedgerWriter
  let oldProofs: OldProofs
  let pool: PostgresPool
  let grandfathering: Grandfathering
  let signer: EntitlementSigner
  let rateLimits: ClientRateLimits
  let clock: ServiceClock
  let outcomes: OutcomeMetrics

  private struct Body: JSONReadable {
    enum Member: String, CaseIterable {
      case signedTransactions, signedAppTransaction
      case originalTransactionID = "premium_original_transaction_id"
    }

    private static let names = JSONNames<Member>()

    var signedTransactions: [String]?
    var signedAppTransaction: String?
    var originalTransactionID: String?

    init(reading json: inout JSONReader) throws(JSONFailure) {
      var members = try json.members(of: Self.names)
      while let member = try members.next(in: &json) {
        switch member {
        case .signedTransactions: signedTransactions = try json.readOrNull()
        case .signedAppTransaction: signedAppTransaction = try json.readOrNull()
        case .originalTransactionID: originalTransactionID = try json.readOrNull()
        }
      }
    }
  }

  /// More than any real customer has.
  private static let maximumTransactions = 200

  func put(_ request: Request) async throws -> Response {
    let (user, apps) = try await authenticate(request)
    do {
      let response = try await put(request, of: user, in: apps)
      outcomes.synced(apps)
      return response
    } catch {
      outcomes.synced(apps, error)
      throw error
    }
  }

  private func put(_ request: Request, of user: UUID, in apps: [App]) async throws -> Response {
    try request.requireJSON()
    let body = try request.readJSON(Body.self)
    let proofs = body.signedTransactions ?? []
    guard proofs.count <= Self.maximumTransactions else {
      throw Problem.invalidRequest("At most \(Self.maximumTransactions) transactions at once.")
    }
    try rateLimits.admit(
      proofs: proofs.count + (body.signedAppTransaction == nil ? 0 : 1), of: request, by: user)
    // Verify all before storing any: an invalid transaction changes nothing.
    let purchases = try proofs.enumerated().map { index, jws in
      try prove(jws, at: index, by: apps)
    }
    let download = try body.signedAppTransaction.map { try self.proofs.appTransaction($0, bundleID: nil) }
    if let download, !apps.contains(where: { $0.bundleID == download.app.bundleID }) {
      throw ServiceError.wrongApp("The token is not one of the app transaction's app.")
    }
    var named: ProvenPurchase?
    // The App Store need not be asked about a purchase whose signed transaction is beside the id.
    if let id = try body.originalTransactionID.flatMap(checkID), !purchases.contains(where: { $0.has(id) }) {
      let app = try await app(of: request, among: apps, preferring: nil, for: user)
      named = try await bareIDs.purchase(id, of: app, for: request)
    }
    // Also a user whose purchase is refused below.
    for purchase in purchases + [named].compactMap(\.self) { authenticator.note(user, of: purchase.app) }
    var receipts = try await claim(purchases, for: user)
    if let named { receipts.append(try await claim(named, byNameFor: user)) }
    if let download {
      try await grandfathering.award(for: download.signed.payload, of: download.app, to: user)
    }
    // A refused purchase does not affect the others: they are stored.
    if receipts.contains(where: \.isRefused) { throw ServiceError.belongsToAnotherCustomer }
    let claimed = purchases + [named].compactMap(\.self)
    if let unknown = claimed.first(where: { $0.app.product(named: $0.productID) == nil }) {
      throw ServiceError.unknownProduct(unknown.productID)
    }
    let app = try await app(
      of: request, among: apps, preferring: claimed.last?.app ?? download?.app, for: user)
    // Several purchases may be committed one after another, and each receipt has the records of its commit. An award
    // comes later, also by another request.
    let only = receipts.count == 1 && download == nil ? receipts.first : nil
    return try await answer(user, app, only?.records(of: .user(user), in: app))
  }

  func get(_ request: Request) async throws -> Response {
    let (user, apps) = try await authenticate(request)
    return try await answer(user, app(of: request, among: apps, preferring: nil, for: user))
  }

  private func authenticate(_ request: Request) async throws -> (UUID, [App]) {
    let wanted = try request.parameters.require("userID", as: UUID.self)
    let (user, apps) = try await authenticator.user(of: request)
    guard user == wanted else { throw ServiceError.forbidden }
    try rateLimits.admit(user: user)
    return (user, apps)
  }

  private func prove(_ jws: String, at index: Int, by apps: [App]) throws(Problem) -> ProvenPurchase {
    do throws(Problem) {
      let purchase = try proofs.purchase(
        signedTransaction: jws, signedRenewalInfo: nil, bundleID: nil)
      guard apps.contains(where: { $0.bundleID == purchase.app.bundleID }) else {
        throw ServiceError.wrongApp("The token is not one of the transaction's app.")
      }
      return purchase
    } catch {
      var problem = error
      problem.detail = "signedTransactions[\(index)]: " + problem.detail
      throw problem
    }
  }

  /// - Returns: `nil` for an empty text, which a row without a purchase may have.
  private func checkID(_ id: String) throws(Problem) -> String? {
    guard !id.isEmpty else { return nil }
    guard id.isTransactionID else {
      throw .invalidRequest("'premium_original_transaction_id' must be 1 to 20 digits.")
    }
    return id
  }

  /// Stores a purchase that the client only named.
  /// - Throws: 409 `belongs_to_another_customer` for a purchase that a name alone does not give to the user.
  private func claim(_ purchase: ProvenPurchase, byNameFor user: UUID) async throws -> LedgerReceipt {
    let customer = Customer.user(user)
    var claim = Claim(by: customer, Possession.unproven.claim(in: purchase.app))
    claim.strength = try await bareIDs.strength(claim.strength, of: purchase, for: customer)
    let entry = LedgerEntry(purchase, because: .proof(claim), instant: clock.now())
    let receipt = try await oldProofs.confirmed(try await ledger.record(entry), of: entry)
    if receipt.isContradiction {
      throw ServiceError.wrongApp("The purchase is known as one of another app or environment.")
    }
    if claim.strength == .nothing, receipt.subscription?.customers.contains(customer) == false {
      throw ServiceError.needsProof
    }
    return receipt
  }

  private static let entriesAtOnce = 8

  /// Stores the purchases, each with all its transactions at once.
  private func claim(_ purchases: [ProvenPurchase], for user: UUID) async throws -> [LedgerReceipt] {
    let instant = clock.now()
    let entries = Dictionary(grouping: purchases, by: \.originalTransactionID).values.compactMap { same in
      same.first.map { first in
        var entry = LedgerEntry(first, because: .proof(Claim(by: .user(user))), instant: instant)
        entry.transactions = same.flatMap(\.transactions)
        return entry
      }
    }
    // A few at a time, which one transaction takes: several transactions would wait for each other, because all need
    // the user's lock.
    var receipts: [Recorded] = []
    for start in stride(from: 0, to: entries.count, by: Self.entriesAtOnce) {
      receipts += try await withThrowingTaskGroup(of: Recorded.self) { group in
        for entry in entries[start...].prefix(Self.entriesAtOnce) {
          group.addTask { Recorded(try await ledger.record(entry)) }
        }
        return try await group.reduce(into: [Recorded]()) { $0.append($1) }
      }
    }
    await oldProofs.confirm(receipts.map(\.receipt))
    return receipts.map(\.receipt)
  }

  /// An entry's receipt. It is a class for the reason of ``MissedNotifications``'s outcomes.
  private final class Recorded: Sendable {
    let receipt: LedgerReceipt

    init(_ receipt: LedgerReceipt) { self.receipt = receipt }
  }

  /// The app of the response. In this order: the requested app, the app just synced, the app of the `Host`, the default
  /// app, the only app, the first app that the user has records of.
  private func app(
    of request: Request, among apps: [App], preferring synced: App?, for user: UUID
  ) async throws -> App {
    if let bundleID = request.query["bundleID"] {
      guard let app = apps.first(where: { $0.bundleID == bundleID }) else {
        throw ServiceError.wrongApp("The token is not one of the app in 'bundleID'.")
      }
      return app
    }
    if let synced { return synced }
    if let implied = self.apps.implied(by: request, among: apps) { return implied }
    guard let first = apps.first else { throw ServiceError.unauthenticated }
    if apps.count == 1 { return first }
    let customerRecords = try await pool.customerRecords(users: [user])[.user(user)]
    return apps.first { customerRecords.has(of: $0) } ?? first
  }

  /// - Parameter known: the user's records of the app, if they are known already.
  private func answer(_ user: UUID, _ app: App, _ known: CustomerRecords? = nil) async throws -> Response {
    authenticator.note(user, of: app)
    let instant = clock.now()
    let records =
      if let known {
        known
      } else {
        try await pool.customerRecords(users: [user]).customerRecords(of: .user(user), in: app, at: instant)
      }
    let entitlements = app.entitlements(of: records, for: .user(user), at: instant)
    let answer = EntitlementsResponse(
      entitlements, of: app, for: .user(user), at: instant, signedBy: signer)
    return Response.json(.ok, ProfileResponse(entitlements, answer: answer, at: instant))
  }
}

extension ProvenPurchase {
  /// Whether the id is that of the purchase or of one of these transactions.
  fileprivate func has(_ transactionID: String) -> Bool {
    originalTransactionID == transactionID
      || transactions.contains { $0.fact.transactionID == transactionID }
  }
}

extension LedgerReceipt {
  /// Whether the purchase belongs to another customer than the claimant.
  fileprivate var isRefused: Bool {
    switch claim {
    case .refused, .postponed: true
    case .settled, .moved, .shared: false
    }
  }

  /// The customer's records of this app; `nil` if the receipt does not have them, or an answer of the App Store may
  /// have changed them since.
  fileprivate func records(of customer: Customer, in app: App) -> CustomerRecords? {
    guard unconfirmedProof == nil, let subscription, subscription.bundleID == app.bundleID,
      subscription.customers.contains(customer)
    else { return nil }
    return customerRecords
  }
}
