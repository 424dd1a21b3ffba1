import AppStore
import Foundation
import HTTP
import HTTPTypes
import Subscriptions

/// Verifies the signed data with which a client proves a purchase.
struct ProofVerifier: Sendable {
  let verifier: SignedDataVerifier
  let apps: AppOfRequest

  /// Verifies a signed transaction, with its renewal info if there is one.
  /// - Parameter bundleID: the bundle id that the client sent, if any.
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

  /// Verifies a signed app transaction and finds its app.
  ///
  /// - Parameters:
  ///   - bundleID: the bundle id that the client sent, if any.
  ///   - kind: the kind of customers that the route is for; `nil` for both.
  /// - Throws: 422 with the code that fits.
  func appTransaction(
    _ jws: String, bundleID: String?, customers kind: CustomerKind? = nil
  ) throws(Problem) -> (app: App, signed: Signed<AppTransaction>) {
    let signed: Signed<AppTransaction>
    do throws(VerificationFailure) {
      signed = try verifier.appTransaction(jws)
    } catch {
      throw Problem(clientProof: error)
    }
    let app = try apps.app(
      proven: signed.payload.bundleId, named: bundleID, customers: kind, by: "app transaction")
    do throws(VerificationFailure) {
      try app.identity.check(signed.payload)
    } catch {
      throw Problem(clientProof: error)
    }
    return (app, signed)
  }

  /// Verifies a signed app transaction of one app.
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
    let app: App
    do throws(Problem) {
      app = try apps.app(proven: info.bundleId, named: bundleID, by: "transaction")
    } catch {
      return .failure(error)
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

extension Problem {
  /// The error for a client whose proof does not verify.
  init(clientProof failure: VerificationFailure) {
    switch failure.code {
    case .certificateNotValidAtSignedDate: self = ServiceError.certificateExpired(failure.detail)
    case .wrongApp: self = ServiceError.wrongApp(failure.detail)
    case .wrongEnvironment: self = ServiceError.wrongEnvironment(failure.detail)
    // Only parts of notifications fail with this code.
    case .innerMismatch where failure.field == "environment":
      self = ServiceError.wrongEnvironment(failure.detail)
    case .innerMismatch: self = ServiceError.wrongApp(failure.detail)
    default: self = ServiceError.invalidSignature(.unprocessableContent, failure.detail)
    }
  }
}
