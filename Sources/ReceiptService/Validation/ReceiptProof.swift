import AppStore
import HTTP
import Subscriptions

/// A legacy app receipt that a client shows: which app it is of, and which transaction to ask the store about.
struct ReceiptProof: Sendable {
  let app: App
  let transactionID: String

  /// - Parameter bundleID: the app that the client says it is, if it says so.
  /// - Throws: `invalid_request` for what cannot be read. It is not `invalid_signature`, because the signature is not
  ///   judged. `wrong_app` for another app's, `transaction_not_found` for one without purchases.
  init(_ text: String, bundleID: String?, in catalog: AppCatalog) throws(Problem) {
    let receipt: AppReceipt
    do throws(AppReceipt.Failure) {
      receipt = try AppReceipt(base64: text)
    } catch {
      throw .invalidRequest("'receipt' is not a base64 app receipt: \(error.detail).")
    }
    guard let app = catalog[receipt.bundleID] else {
      throw ServiceError.wrongApp("No app with the receipt's bundle id is configured.")
    }
    if let bundleID, bundleID != receipt.bundleID {
      throw ServiceError.wrongApp("The receipt is not of the app in 'bundleID'.")
    }
    // What the catalog does not know opens nothing, such as a consumable that was bought last.
    let purchases = receipt.purchasesByInterest
    let known = purchases.first { app.product(named: $0.productID) != nil }
    guard let purchase = known ?? purchases.first else { throw ServiceError.noPurchase }
    self.app = app
    // The store gives a subscription's present state for its original transaction with one request.
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
