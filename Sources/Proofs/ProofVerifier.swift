import AppStore
import Configuration
import Customers
import Foundation
import HTTP
import HTTPTypes
import Ledger
import Requests
import Subscriptions
import Text

/// Verifies the signed data with which a client proves a purchase.
package struct ProofVerifier: Sendable {
  let verifier: SignedDataVerifier
  package let apps: AppOfRequest

  /// Verifies a signed transaction, with its renewal info if there is one.
  /// - Parameter bundleID: the bundle id that the client sent, if any.
  /// - Throws: 422 with the code that fits.
  package func purchase(
    signedTransaction: String, signedRenewalInfo: String?, bundleID: String?
  ) throws(Problem) -> ProvenPurchase {
    let result: Result<ProvenPurchase, Problem>
    do throws(VerificationFailure) {
      let transaction = try verifier.transaction(signedTransaction)
      let renewalInfo: Signed<RenewalInfo>?
      if let signedRenewalInfo {
        renewalInfo = try verifier.renewalInfo(signedRenewalInfo, of: transaction)
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

/// A verified purchase: signed by Apple, of a configured app and in an environment that the app accepts.
package struct ProvenPurchase: Sendable {
  package var app: App
  package var originalTransactionID: String
  var productID: String
  package var transactions: [TransactionRecord]
  var renewals: [RenewalRecord]
}

/// A legacy app receipt sent by a client: its app, and the transaction to look up in the App Store.
package struct ReceiptProof: Sendable {
  let app: App
  package let transactionID: String

  /// - Parameter bundleID: the bundle id that the client sent, if any.
  /// - Throws: `invalid_request` for an unreadable receipt (not `invalid_signature`, because the signature is not
  ///   checked), `wrong_app` for another app's receipt, `transaction_not_found` for a receipt without purchases.
  package init(_ text: String, bundleID: String?, in apps: AppOfRequest) throws(Problem) {
    let receipt: AppReceipt
    do throws(AppReceipt.Failure) {
      receipt = try AppReceipt(base64: text)
    } catch {
      throw .invalidRequest("'receipt' is not a base64 app receipt: \(error.detail).")
    }
    let app = try apps.app(proven: receipt.bundleID, named: bundleID, by: "receipt")
    // Prefer a product of the catalog: others, such as a consumable bought last, grant no access.
    let purchases = receipt.purchasesByInterest
    let known = purchases.first { app.product(named: $0.productID) != nil }
    guard let purchase = known ?? purchases.first else { throw ServiceError.noPurchase }
    self.app = app
    // One request with the original transaction id returns a subscription's present state.
    transactionID = purchase.originalTransactionID
  }
}

extension AppReceipt.Failure {
  fileprivate var detail: String {
    switch self {
    case .notBase64: "not base64"
    case .tooLong: "more than \(AppReceipt.maximumLength) bytes"
    case .notAReceipt(let detail): detail
    }
  }
}
