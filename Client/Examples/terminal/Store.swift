import Foundation
import ReceiptdClient

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

/// The simulated App Store of `scripts/demo --serve`, in place of StoreKit.
struct Store {
  let address: URL
  private let transport = URLSessionTransport()

  init(address: URL) { self.address = address }

  struct Refused: Error, CustomStringConvertible {
    let description: String
  }

  /// Buys a product.
  /// - Returns: the signed transaction, as StoreKit's `jwsRepresentation`, and the id of the purchase.
  func buy(_ product: String, of bundle: String, user: UUID?, account: String) async throws -> (
    jws: String, id: String
  ) {
    var body = ["bundleID": bundle, "productID": product, "account": account]
    body["appAccountToken"] = user?.uuidString.lowercased()
    let answer = try await control("purchases", body)
    return (answer["signedTransaction"] as? String ?? "", answer["originalTransactionID"] as? String ?? "")
  }

  func appTransaction(of bundle: String, account: String) async throws -> String {
    let answer = try await control("app-transactions", ["bundleID": bundle, "account": account])
    return answer["signedAppTransaction"] as? String ?? ""
  }

  /// `renew`, `refund`, …
  func change(_ purchase: String, _ command: String) async throws {
    _ = try await control("subscriptions/\(purchase)/\(command)", [:])
  }

  private func control(_ path: String, _ body: [String: String]) async throws -> [String: Any] {
    let response = try await transport.send(
      TransportRequest(
        method: "POST", url: address.appendingPathComponent("control/\(path)"),
        headers: ["Content-Type": "application/json"], body: try JSONEncoder().encode(body)))
    let text = String(decoding: response.body, as: UTF8.self)
    guard response.status == 200,
      let answer = try JSONSerialization.jsonObject(with: response.body) as? [String: Any]
    else { throw Refused(description: "the store refused: \(response.status) \(text)") }
    return answer
  }
}

/// The sign-in of the demo: an access token as Supabase issues it.
struct Session {
  let user: UUID
  let secret: String

  var token: String {
    func part(_ data: Data) -> String {
      data.base64EncodedString().replacingOccurrences(of: "+", with: "-")
        .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }
    let claims = """
      {"sub":"\(user.uuidString.lowercased())","iss":"https://swiftclimb.supabase.co/auth/v1",\
      "aud":"authenticated","role":"authenticated","exp":\(Int(Date().timeIntervalSince1970) + 3600)}
      """
    let text = part(Data(#"{"alg":"HS256","typ":"JWT"}"#.utf8)) + "." + part(Data(claims.utf8))
    let code = HMAC<SHA256>.authenticationCode(
      for: Data(text.utf8), using: SymmetricKey(data: Data(secret.utf8)))
    return text + "." + part(Data(code))
  }
}
