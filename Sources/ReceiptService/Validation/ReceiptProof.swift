import AppStore
import HTTP
import Subscriptions

/// A legacy app receipt sent by a client: its app, and the transaction to look up in the App Store.
struct ReceiptProof: Sendable {
  let app: App
  let transactionID: String

  /// - Parameter bundleID: the bundle id that the client sent, if any.
  /// - Throws: `invalid_request` for an unreadable receipt (not `invalid_signature`, because the signature is not
  ///   checked), `wrong_app` for another app's receipt, `transaction_not_found` for a receipt without purchases.
  init(_ text: String, bundleID: String?, in apps: AppOfRequest) throws(Problem) {
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
