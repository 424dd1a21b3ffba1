import Foundation

/// Builds requests, adds the customer's credentials, and reads responses.
struct API: Sendable {
  let configuration: ReceiptdConfiguration
  let token: @Sendable (Bool) async throws -> String?

  static let encoder: JSONEncoder = {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .iso8601
    return encoder
  }()

  static let decoder: JSONDecoder = {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    return decoder
  }()

  /// One call of the API.
  struct Call: Sendable {
    var method: String
    /// The parts of the path after the base address.
    var path: [String]
    var hasBundleQuery = false
    var body: Data?
    /// The customer whose credentials are sent; `nil` for none.
    var customer: Customer?
  }

  // MARK: Calls

  static func entitlements(of customer: Customer) -> Call {
    switch customer {
    case .user:
      Call(
        method: "GET", path: ["api", "v1", "profiles", customer.id, "premium"], hasBundleQuery: true,
        customer: customer)
    case .device: device(customer, "GET", ["entitlements"])
    }
  }

  static let keySet = Call(method: "GET", path: [".well-known", "jwks.json"])

  static func device(_ customer: Customer, _ method: String, _ path: [String], body: Data? = nil) -> Call {
    Call(
      method: method, path: ["api", "v1", "devices", customer.id] + path, hasBundleQuery: true, body: body,
      customer: customer)
  }

  func call(_ work: QueuedProof.Work, of customer: Customer) throws -> Call {
    switch work {
    case .proof(let proof):
      var body: [String: String] = ["bundleID": configuration.bundleID]
      if case .device(let id) = customer { body["deviceID"] = id }
      switch proof {
      case .signedTransaction(let jws, let renewal):
        body["signedTransaction"] = jws
        body["signedRenewalInfo"] = renewal
      case .transactionID(let id, let app):
        body["transactionID"] = id
        body["signedAppTransaction"] = app
      case .receipt(let receipt, let app):
        body["receipt"] = receipt
        body["signedAppTransaction"] = app
      }
      return try post(["subscriptions", "validate"], body, of: customer)
    case .sync(let transactions, let app):
      struct Body: Encodable {
        var signedTransactions: [String]
        var signedAppTransaction: String?
      }
      return Call(
        method: "PUT", path: ["api", "v1", "profiles", customer.id, "premium"], hasBundleQuery: true,
        body: try Self.encoder.encode(Body(signedTransactions: transactions, signedAppTransaction: app)),
        customer: customer)
    }
  }

  func post(_ path: [String], _ body: some Encodable, of customer: Customer?) throws -> Call {
    Call(method: "POST", path: ["api", "v1"] + path, body: try Self.encoder.encode(body), customer: customer)
  }

  // MARK: Responses

  /// The member `entitlements`. Everything that opens something comes from the token.
  struct EntitlementsMember: Decodable {
    var entitlementToken: String?
    var everHadAccess: Bool?
  }

  /// A response with entitlements.
  struct EntitlementsAnswer: Decodable {
    var entitlements: EntitlementsMember
    var pairing: Pairing?
    var code: ReceiptdError.Code?
    var trial: Trial?
  }

  /// Reads a success. A body that is not receiptd's, such as a captive portal's page with status 200, or one that was cut
  /// short, is an error after which the request is repeated.
  static func read<Answer: Decodable>(_ type: Answer.Type, from response: TransportResponse) throws -> Answer
  {
    do {
      return try decoder.decode(type, from: response.body)
    } catch {
      throw ReceiptdError.unexpected(
        status: response.status, "HTTP \(response.status) with a body that is not receiptd's")
    }
  }

  // MARK: Sending

  /// Sends a call. After a 401 of a user it asks the app for a new token, once.
  /// - Returns: a response of the 200s.
  /// - Throws: ``ReceiptdError``, or `CancellationError`.
  func send(_ call: Call) async throws -> TransportResponse {
    var request = try request(call)
    guard let customer = call.customer else { return try await exchange(request) }
    switch customer {
    case .device:
      do {
        request.headers["Receiptd-Device-Secret"] = try configuration.deviceSecret()
      } catch {
        throw ReceiptdError.store(error)
      }
      return try await exchange(request)
    case .user:
      request.headers["Authorization"] = "Bearer \(try await accessToken(of: customer, isNew: false))"
      do {
        return try await exchange(request)
      } catch let error as ReceiptdError where error.code == .unauthenticated {
        request.headers["Authorization"] = "Bearer \(try await accessToken(of: customer, isNew: true))"
        return try await exchange(request)
      }
    }
  }

  private func request(_ call: Call) throws -> TransportRequest {
    var unreserved = CharacterSet(
      charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
    unreserved.insert(charactersIn: "")
    func escaped(_ text: String) -> String {
      text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? ""
    }
    var text = configuration.server.absoluteString
    while text.hasSuffix("/") { text.removeLast() }
    text += call.path.map { "/" + escaped($0) }.joined()
    if call.hasBundleQuery { text += "?bundleID=" + escaped(configuration.bundleID) }
    guard let url = URL(string: text) else {
      throw ReceiptdError.wrongKind("'\(configuration.server)' is not an address")
    }
    var headers = ["Accept": "application/json"]
    if call.body != nil { headers["Content-Type"] = "application/json" }
    return TransportRequest(method: call.method, url: url, headers: headers, body: call.body)
  }

  private func exchange(_ request: TransportRequest) async throws -> TransportResponse {
    let response: TransportResponse
    do {
      response = try await configuration.transport.send(request)
    } catch {
      try Task.checkCancellation()
      throw ReceiptdError.offline("\(type(of: error)) \((error as NSError).code)")
    }
    guard (200..<300).contains(response.status) else { throw ReceiptdError(response) }
    return response
  }

  /// The app's access token, if it can be this user's. `validate` names no user besides the token, so the token of a user who
  /// has just left would bind this user's purchase to the other one.
  private func accessToken(of customer: Customer, isNew: Bool) async throws -> String {
    let found: String?
    do {
      found = try await token(isNew)
    } catch let error as ReceiptdError {
      throw error
    } catch {
      try Task.checkCancellation()
      throw ReceiptdError.offline("the app's token function failed: \(type(of: error))")
    }
    guard let found else { throw ReceiptdError.notSignedIn }
    if let subject = Self.subject(of: found), subject.lowercased() != customer.id {
      throw ReceiptdError.tokenOfAnother
    }
    return found
  }

  /// The `sub` of a JWT, unverified; `nil` if it is none.
  private static func subject(of token: String) -> String? {
    struct Claims: Decodable { var sub: String? }
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let payload = Base64URL.data(parts[1]) else { return nil }
    return (try? JSONDecoder().decode(Claims.self, from: payload))?.sub
  }
}
