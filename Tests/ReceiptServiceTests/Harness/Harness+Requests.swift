import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTP
import HTTPTypes

/// A response with access to its JSON.
struct Answer: Sendable {
  let status: Int
  let headers: HTTPFields
  let body: [UInt8]

  /// The value at a path such as `subscription.status`; `nil` where there is none, `NSNull` for null.
  subscript(path: String) -> Any? {
    var value = try? JSONSerialization.jsonObject(with: Data(body))
    for name in path.split(separator: ".") { value = (value as? [String: Any])?[String(name)] }
    return value
  }

  func string(_ path: String) -> String? { self[path] as? String }

  func bool(_ path: String) -> Bool? { self[path] as? Bool }

  func date(_ path: String) -> Date? { string(path).flatMap { RFC3339.date(from: $0) } }

  func isNull(_ path: String) -> Bool { self[path] is NSNull }

  /// The code of a problem.
  var code: String? { string("code") }
}

extension Harness {
  func send(
    _ method: HTTPRequest.Method, _ path: String, json: String? = nil, token: String? = nil,
    secret: String? = nil, to address: SocketAddress? = nil
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    if json != nil { headers[.contentType] = "application/json" }
    if let token { headers[.authorization] = "Bearer \(token)" }
    if let secret, let name = HTTPField.Name("Receiptd-Device-Secret") { headers[name] = secret }
    let response = try await http.send(
      CurlRequest(
        method: method, url: "http://\(address ?? self.address)\(path)", headers: headers,
        body: json.map { Array($0.utf8) }, timeout: databaseTimeout ?? .seconds(10)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }

  /// `POST /api/v1/subscriptions/validate` with these members.
  func validate(
    _ members: [String: String], token: String? = nil, secret: String? = nil
  ) async throws -> Answer {
    let body = String(decoding: try JSONEncoder().encode(members), as: UTF8.self)
    return try await send(
      .post, "/api/v1/subscriptions/validate", json: body, token: token, secret: secret)
  }

  /// `POST /api/v1/subscriptions/webhook`.
  func notify(_ signedPayload: String) async throws -> Answer {
    try await send(
      .post, "/api/v1/subscriptions/webhook", json: #"{"signedPayload": "\#(signedPayload)"}"#)
  }

  func profile(of user: UUID, token: String?) async throws -> Answer {
    try await send(.get, "/api/v1/profiles/\(user.uuidString.lowercased())/premium", token: token)
  }

  func sync(
    _ signedTransactions: [String], user: UUID, token: String?
  ) async throws -> Answer {
    let list = signedTransactions.map { "\"\($0)\"" }.joined(separator: ",")
    return try await send(
      .put, "/api/v1/profiles/\(user.uuidString.lowercased())/premium",
      json: #"{"signedTransactions": [\#(list)]}"#, token: token)
  }

  /// A purchase in the simulated store whose notification is not sent.
  func buy(
    _ productID: String = TestApps.monthly, bundleID: String = TestApps.climbing,
    token: UUID? = nil, in environment: AppStore.Environment = .production
  ) throws -> SignedOutcome {
    try store.buy(
      PurchaseRequest(bundleID: bundleID, productID: productID, appAccountToken: token), in: environment)
  }
}
