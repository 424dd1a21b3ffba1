import Foundation
import HTTP
import JSON

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
      guard (1...20).contains(id.utf8.count), id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
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
