import AppStore
import FoundationEssentials
import HTTP
import Logging
import Subscriptions

/// Asks the App Store about a bare transaction id.
///
/// For a subscription Get All Subscription Statuses alone is enough: it brings the latest transaction and the renewal
/// info together. Get Transaction Info follows only where that does not settle what the id is.
struct StoreLookup: Sendable {
  /// The API of each app that has a key, by bundle id.
  let apis: [String: AppStoreServerAPI]
  let verifier: SignedDataVerifier
  let logger: Logger

  /// The purchase that a transaction belongs to, as the store has it now.
  /// - Parameter isKnown: whether the id was ever taken in. One that was not may be invented, and has no more than a
  ///   share of what Apple allows.
  /// - Throws: ``Problem``: `transaction_not_found`, `store_unavailable`, `wrong_environment`.
  func purchase(
    transactionID: String, isKnown: Bool, of app: App
  ) async throws(Problem) -> ProvenPurchase {
    guard let api = apis[app.bundleID] else {
      throw ServiceError.storeUnavailable("No App Store Connect key is configured for this app.")
    }
    do {
      let request = api.forOneRequest()
      return try await purchase(transactionID, of: app, from: isKnown ? request : request.forUnknownIDs())
    } catch let error as AppStoreServerError {
      throw problem(for: error)
    } catch let error as VerificationFailure where error.code == .wrongApp || error.code == .wrongEnvironment
    {
      throw Problem(clientProof: error)
    } catch {
      logger.error("an answer of the App Store does not verify", metadata: ["reason": "\(error)"])
      throw ServiceError.storeUnavailable("The App Store's answer could not be verified.")
    }
  }

  private func purchase(
    _ id: String, of app: App, from api: AppStoreServerAPI
  ) async throws -> ProvenPurchase {
    guard let located = try await api.locateSubscriptions(anyTransactionID: id) else {
      // Apple does not say whether a customer without subscriptions is 'not found' here or has an empty list. So an
      // id that nobody knows costs four requests, and a purchase that is real is never said not to be.
      return try await purchase(api.locate(id).signedTransactionInfo, asked: id, of: app, among: [])
    }
    for item in located.subscriptions {
      if let found = try purchase(item, ifConcerning: id, of: app) { return found }
    }
    // A purchase that is no subscription, or an earlier period of one.
    let info = try await api.transactionInfo(id, in: located.environment)
    guard let jws = info.signedTransactionInfo else {
      throw AppStoreServerError.undecodableAnswer(status: 200, detail: "without signedTransactionInfo")
    }
    return try purchase(jws, asked: id, of: app, among: located.subscriptions)
  }

  /// A subscription of the customer, if it is the one that was asked about.
  ///
  /// - Throws: if it claims to be, and what it says is not signed for this app.
  private func purchase(
    _ item: LastTransactionsItem, ifConcerning id: String, of app: App
  ) throws -> ProvenPurchase? {
    guard let jws = item.signedTransactionInfo else { return nil }
    guard item.originalTransactionId == id || (try? verifier.transaction(jws))?.payload.transactionId == id
    else { return nil }
    let latest = try verified(jws, in: app)
    return ProvenPurchase(
      app: app, originalTransactionID: latest.payload.originalTransactionId.storable,
      productID: latest.payload.productId, transactions: [try TransactionRecord(latest)],
      renewals: try renewals(item, in: app))
  }

  /// A transaction that was asked for by its id, with the present state of its subscription if it has one.
  private func purchase(
    _ jws: String, asked id: String, of app: App, among subscriptions: [LastTransactionsItem]
  ) throws -> ProvenPurchase {
    let asked = try verified(jws, in: app)
    let original = asked.payload.originalTransactionId
    var purchase = ProvenPurchase(
      app: app, originalTransactionID: original.storable, productID: asked.payload.productId,
      transactions: [try TransactionRecord(asked)], renewals: [])
    for item in subscriptions where item.originalTransactionId == original {
      if let jws = item.signedTransactionInfo {
        let latest = try verified(jws, in: app)
        purchase.transactions.append(try TransactionRecord(latest))
        purchase.productID = latest.payload.productId
      }
      purchase.renewals += try renewals(item, in: app)
    }
    return purchase
  }

  private func renewals(_ item: LastTransactionsItem, in app: App) throws -> [RenewalRecord] {
    guard let jws = item.signedRenewalInfo else { return [] }
    let signed = try verifier.renewalInfo(jws)
    try app.identity.check(signed.payload)
    // One of another purchase would be written without that one's lock.
    guard signed.payload.originalTransactionId == item.originalTransactionId else { return [] }
    return [try RenewalRecord(signed)]
  }

  private func verified(_ jws: String, in app: App) throws -> Signed<TransactionInfo> {
    let signed = try verifier.transaction(jws)
    try app.identity.check(signed.payload)
    return signed
  }

  private func problem(for error: AppStoreServerError) -> Problem {
    switch error {
    case .transactionNotFound: return ServiceError.transactionNotFound
    case .rejected(let rejection)
    where rejection.code == .invalidTransactionId || rejection.code?.meansUnknown == true:
      return ServiceError.transactionNotFound
    case .overloaded(let wait):
      // One line for each would be a flood just when there is one already.
      logger.debug("the App Store's rate limit leaves no room")
      return ServiceError.storeUnavailable(
        "Too many requests to the App Store are waiting.", retryAfterSeconds: wait.wholeSeconds)
    case .circuitOpen(let wait):
      logger.debug("the App Store is left alone, because it did not answer lately")
      return ServiceError.storeUnavailable(
        "The App Store Server API did not answer lately.", retryAfterSeconds: wait.wholeSeconds)
    case .transport(let cause) where cause is CancellationError:
      // The client went away and reads no answer.
      return ServiceError.storeUnavailable
    default:
      logger.error("the App Store Server API gave no answer", metadata: ["reason": "\(error.reason)"])
      return ServiceError.storeUnavailable
    }
  }
}

extension Duration {
  /// In whole seconds as `Retry-After` has them: rounded up, from 1 to an hour.
  var wholeSeconds: Int {
    let (seconds, attoseconds) = components
    return Int(min(max(seconds + (attoseconds > 0 ? 1 : 0), 1), 3600))
  }
}

extension AppStoreServerError {
  /// One line for a log.
  var reason: String {
    switch self {
    case .rejected(let rejection):
      "status \(rejection.status), code \(rejection.code.map { "\($0.rawValue)" } ?? "none")"
    case .unauthorizedWithoutJSON: "401: the key, its id or the issuer id is not taken"
    case .transactionNotFound: "not found"
    case .transport(let error): "no answer: \(error)"
    case .undecodableAnswer(let status, let detail): "status \(status), \(detail)"
    case .invalidArgument(let name): "the argument \(name) cannot be sent"
    case .tokenNotSigned: "the bearer token could not be signed"
    case .overloaded(let wait): "no room for \(wait)"
    case .circuitOpen(let wait): "left alone for \(wait)"
    }
  }
}
