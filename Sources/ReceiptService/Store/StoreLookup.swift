import AppStore
import FoundationEssentials
import HTTP
import Logging
import Subscriptions

/// Asks the App Store about a bare transaction id.
struct StoreLookup: Sendable {
  /// The API of each app that has a key, by bundle id.
  let apis: [String: AppStoreServerAPI]
  let verifier: SignedDataVerifier
  let logger: Logger

  /// The purchase that a transaction belongs to, as the store has it now.
  /// - Throws: ``Problem``: `transaction_not_found`, `store_unavailable`, `wrong_environment`.
  func purchase(transactionID: String, of app: App) async throws(Problem) -> ProvenPurchase {
    guard let api = apis[app.bundleID] else {
      throw ServiceError.storeUnavailable("No App Store Connect key is configured for this app.")
    }
    do {
      let located = try await api.locate(transactionID)
      let found = try verified(located.signedTransactionInfo, in: app)
      var purchase = ProvenPurchase(
        app: app, originalTransactionID: found.payload.originalTransactionId.storable,
        productID: found.payload.productId, transactions: [try TransactionRecord(found)], renewals: [])
      if found.payload.type == .autoRenewableSubscription {
        try await addStatus(to: &purchase, api, transactionID, located.environment)
      }
      return purchase
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

  /// Adds the latest transaction and the renewal info of the same subscription.
  private func addStatus(
    to purchase: inout ProvenPurchase, _ api: AppStoreServerAPI, _ transactionID: String,
    _ environment: Environment
  ) async throws {
    let statuses = try await api.subscriptionStatuses(
      anyTransactionID: transactionID, in: environment)
    let latest = (statuses.data ?? []).flatMap { $0.lastTransactions ?? [] }
      .filter { $0.originalTransactionId == purchase.originalTransactionID }
    for item in latest {
      if let jws = item.signedTransactionInfo {
        let signed = try verified(jws, in: purchase.app)
        purchase.transactions.append(try TransactionRecord(signed))
        purchase.productID = signed.payload.productId
      }
      if let jws = item.signedRenewalInfo {
        let signed = try verifier.renewalInfo(jws)
        try purchase.app.identity.check(signed.payload)
        purchase.renewals.append(try RenewalRecord(signed))
      }
    }
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
    where rejection.code == .invalidTransactionId || rejection.code == .transactionIdNotFound:
      return ServiceError.transactionNotFound
    default:
      logger.error("the App Store Server API gave no answer", metadata: ["reason": "\(error.reason)"])
      return ServiceError.storeUnavailable
    }
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
    }
  }
}
