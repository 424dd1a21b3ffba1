import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import Subscriptions

/// A purchase that is proven: signed by Apple, for one of our apps, from an environment that it takes.
struct ProvenPurchase: Sendable {
  var app: App
  var originalTransactionID: String
  var productID: String
  var transactions: [TransactionRecord]
  var renewals: [RenewalRecord]
}

/// Decides whether what a client shows proves a purchase.
struct ProofVerifier: Sendable {
  let verifier: SignedDataVerifier
  let catalog: AppCatalog

  /// A signed transaction, alone or with its renewal info.
  /// - Parameter bundleID: the app that the client says it is, if it says so.
  /// - Throws: 422 with the code that fits.
  func purchase(
    signedTransaction: String, signedRenewalInfo: String?, bundleID: String?
  ) throws(Problem) -> ProvenPurchase {
    let result: Result<ProvenPurchase, Problem>
    do throws(VerificationFailure) {
      let transaction = try verifier.transaction(signedTransaction)
      let renewalInfo: Signed<RenewalInfo>?
      if let signedRenewalInfo {
        renewalInfo = try verifier.renewalInfo(signedRenewalInfo)
      } else {
        renewalInfo = nil
      }
      result = try proven(transaction, renewalInfo, bundleID: bundleID)
    } catch {
      throw Problem(clientProof: error)
    }
    return try result.get()
  }

  /// An app transaction of one app.
  /// - Throws: 422 with the code that fits.
  func appTransaction(_ jws: String, of app: App) throws(Problem) -> Signed<AppTransaction> {
    do throws(VerificationFailure) {
      let signed = try verifier.appTransaction(jws)
      try app.identity.check(signed.payload)
      return signed
    } catch {
      throw Problem(clientProof: error)
    }
  }

  private func proven(
    _ transaction: Signed<TransactionInfo>, _ renewalInfo: Signed<RenewalInfo>?, bundleID: String?
  ) throws(VerificationFailure) -> Result<ProvenPurchase, Problem> {
    let info = transaction.payload
    guard let app = catalog[info.bundleId] else {
      return .failure(ServiceError.wrongApp("No app with the transaction's bundle id is configured."))
    }
    if let bundleID, bundleID != info.bundleId {
      return .failure(ServiceError.wrongApp("The transaction is not of the app in 'bundleID'."))
    }
    try app.identity.check(info)
    if let renewalInfo {
      try app.identity.check(renewalInfo.payload)
      guard renewalInfo.payload.originalTransactionId == info.originalTransactionId,
        renewalInfo.payload.environment == info.environment
      else {
        return .failure(
          .invalidRequest("'signedRenewalInfo' is not of the same subscription as 'signedTransaction'."))
      }
    }
    guard let record = try? TransactionRecord(transaction) else {
      return .failure(ServiceError.wrongEnvironment("The transaction's environment is not accepted."))
    }
    return .success(
      ProvenPurchase(
        app: app, originalTransactionID: info.originalTransactionId.storable, productID: info.productId,
        transactions: [record], renewals: renewalInfo.flatMap { try? [RenewalRecord($0)] } ?? []))
  }
}

extension App {
  /// What this app takes from the App Store.
  var identity: AppIdentity {
    AppIdentity(
      bundleID: bundleID, appAppleID: appAppleID,
      environments: Set(environments.map { Environment(rawValue: $0.rawValue) }))
  }
}

extension Problem {
  /// What a client is told of a proof that is none.
  init(clientProof failure: VerificationFailure) {
    switch failure.code {
    case .certificateNotValidAtSignedDate: self = ServiceError.certificateExpired(failure.detail)
    case .wrongApp: self = ServiceError.wrongApp(failure.detail)
    case .wrongEnvironment: self = ServiceError.wrongEnvironment(failure.detail)
    // Only parts of notifications fail so.
    case .innerMismatch where failure.field == "environment":
      self = ServiceError.wrongEnvironment(failure.detail)
    case .innerMismatch: self = ServiceError.wrongApp(failure.detail)
    default: self = ServiceError.invalidSignature(.unprocessableContent, failure.detail)
    }
  }
}
