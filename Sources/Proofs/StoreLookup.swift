import AppStore
import Configuration
import Curl
import Deliveries
import Foundation
import HTTP
import Ledger
import Logging
import Requests
import Subscriptions
import Text

/// Looks up a bare transaction id in the App Store.
///
/// For a subscription one call of Get All Subscription Statuses is enough: it returns the latest transaction with its
/// renewal info. Get Transaction Info follows only for an id that the first response does not contain.
package struct StoreLookup: Sendable {
  /// The API of each app that has a key, by bundle id.
  package let apis: [String: AppStoreServerAPI]
  let verifier: SignedDataVerifier
  let logger: Logger

  /// Production answers 401 about an id that the sandbox does not know, as it does for an app that was never released.
  static let answeredBySandboxAlone = ServiceError.storeUnavailable(
    "The App Store answers about sandbox purchases of this app alone.")

  /// The purchase that a transaction belongs to, in its present state in the App Store.
  /// - Parameter isKnown: whether the id is in the database. An unknown id may be invented, so unknown ids use only a
  ///   share of Apple's rate limit.
  /// - Throws: ``Problem``: `transaction_not_found`, `store_unavailable`, `wrong_environment`.
  package func purchase(
    transactionID: String, isKnown: Bool, of app: App
  ) async throws(Problem) -> ProvenPurchase {
    guard let api = apis[app.bundleID] else {
      throw ServiceError.storeUnavailable("No App Store Connect key is configured for this app.")
    }
    do {
      let request = api.forOneRequest()
      return try await purchase(transactionID, of: app, from: isKnown ? request : request.forUnknownIDs())
    } catch let error as AppStoreServerError {
      throw problem(for: error, of: app)
    } catch let error as VerificationFailure where error.code == .wrongApp || error.code == .wrongEnvironment
    {
      throw Problem(clientProof: error)
    } catch {
      logger.error("a response of the App Store does not verify", metadata: ["reason": "\(error)"])
      throw ServiceError.storeUnavailable("The App Store's response could not be verified.")
    }
  }

  private func purchase(
    _ id: String, of app: App, from api: AppStoreServerAPI
  ) async throws -> ProvenPurchase {
    guard let located = try await api.locateSubscriptions(anyTransactionID: id) else {
      // Apple does not document whether a customer without subscriptions gives 'not found' or an empty list. So look up
      // the transaction too: an invented id costs four requests, but a real purchase is never reported as missing.
      return try await purchase(api.locate(id).signedTransactionInfo, asked: id, of: app, among: [])
    }
    return try await purchase(id, of: app, in: located.environment, among: located.subscriptions, from: api)
  }

  /// The purchase of a transaction whose environment and kind are known, in its present state in the App Store. It
  /// takes one request, and a second one where a subscription has another latest transaction.
  /// - Throws: `AppStoreServerError`, `VerificationFailure` and ``UnsupportedEnvironment``.
  func state(
    of transactionID: String, isSubscription: Bool, of app: App, in environment: Environment,
    from api: AppStoreServerAPI
  ) async throws -> ProvenPurchase {
    var subscriptions: [LastTransactionsItem] = []
    if isSubscription {
      do throws(AppStoreServerError) {
        let answer = try await api.subscriptionStatuses(anyTransactionID: transactionID, in: environment)
        subscriptions = (answer.data ?? []).flatMap { $0.lastTransactions ?? [] }
      } catch {
        guard error.retryDecision == .skip else { throw error }
      }
    }
    return try await purchase(transactionID, of: app, in: environment, among: subscriptions, from: api)
  }

  private func purchase(
    _ id: String, of app: App, in environment: Environment, among subscriptions: [LastTransactionsItem],
    from api: AppStoreServerAPI
  ) async throws -> ProvenPurchase {
    for item in subscriptions {
      if let found = try purchase(item, ifConcerning: id, of: app) { return found }
    }
    // A purchase that is not a subscription, or an earlier period of one.
    let info = try await api.transactionInfo(id, in: environment)
    guard let jws = info.signedTransactionInfo else {
      throw AppStoreServerError.undecodableAnswer(status: 200, detail: "without signedTransactionInfo")
    }
    return try purchase(jws, asked: id, of: app, among: subscriptions)
  }

  /// The purchase of one of the customer's subscriptions; `nil` if the id belongs to another one.
  ///
  /// - Throws: if the id matches and the signed data does not verify or is of another app.
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

  /// The purchase of a transaction that was looked up by id, with the present state of its subscription, if any.
  private func purchase(
    _ jws: String, asked id: String, of app: App, among subscriptions: [LastTransactionsItem]
  ) throws -> ProvenPurchase {
    let asked = try verified(jws, in: app)
    let original = asked.payload.originalTransactionId
    guard [asked.payload.transactionId, original].contains(id) else {
      throw AppStoreServerError.undecodableAnswer(status: 200, detail: "about another transaction")
    }
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
    // Renewal info of another purchase would be written without that purchase's lock.
    guard signed.payload.originalTransactionId == item.originalTransactionId else { return [] }
    return [try RenewalRecord(signed)]
  }

  private func verified(_ jws: String, in app: App) throws -> Signed<TransactionInfo> {
    let signed = try verifier.transaction(jws)
    try app.identity.check(signed.payload)
    return signed
  }

  private func problem(for error: AppStoreServerError, of app: App) -> Problem {
    switch error {
    case .transactionNotFound: return ServiceError.transactionNotFound
    case .rejected(let rejection)
    where rejection.code == .invalidTransactionId || rejection.code?.meansUnknown == true:
      return ServiceError.transactionNotFound
    case .overloaded(let wait):
      // Debug level, because these come in floods.
      logger.debug("a lookup was refused because the queue for the App Store is full")
      return ServiceError.storeUnavailable(
        "Too many requests to the App Store are waiting.", retryAfterSeconds: wait.wholeSeconds)
    case .circuitOpen(let wait):
      logger.debug("a lookup was refused because the circuit breaker of the App Store is open")
      return ServiceError.storeUnavailable(
        "The App Store Server API did not respond lately.", retryAfterSeconds: wait.wholeSeconds)
    case .answeredBySandboxAlone:
      // Any client of an app that was never released can cause it.
      logger.info("production answers 401 about a transaction that the sandbox does not know")
      return Self.answeredBySandboxAlone
    case .transport(let cause) where cause is CancellationError:
      // The client is gone and reads no response.
      return ServiceError.storeUnavailable
    default:
      logger.error(
        "a call of the App Store Server API failed",
        metadata: ["app": "\(app.bundleID)", "reason": "\(error.reason)"])
      return ServiceError.storeUnavailable("The App Store Server API \(error.failure).")
    }
  }
}

extension AppStoreServerError {
  /// What the API did, as the end of a sentence for clients.
  fileprivate var failure: String {
    switch self {
    case .unauthorizedWithoutJSON, .tokenNotSigned: "does not accept the server's key"
    case .rejected, .undecodableAnswer: "responded with an error"
    default: "cannot be reached"
    }
  }
}
