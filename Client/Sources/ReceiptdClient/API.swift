import Foundation

/// Builds requests, adds the customer's credentials, and reads responses.
final class API: Sendable {
  private let configuration: ReceiptdConfiguration
  private let token: @Sendable (Bool) async throws -> String?

  init(configuration: ReceiptdConfiguration, token: @escaping @Sendable (Bool) async throws -> String?) {
    self.configuration = configuration
    self.token = token
  }

  /// One call of the API.
  final class Call: Sendable {
    let method: String
    /// The parts of the path after the base address.
    let path: [String]
    let hasBundleQuery: Bool
    let body: Data?
    /// The customer whose credentials are sent; `nil` for none.
    let customer: Customer?

    init(
      _ method: String, _ path: [String], hasBundleQuery: Bool = false, body: Data? = nil,
      customer: Customer? = nil
    ) {
      self.method = method
      self.path = path
      self.hasBundleQuery = hasBundleQuery
      self.body = body
      self.customer = customer
    }

    /// Whether the server wants another access token of a user.
    @inline(never) func isRefused(_ response: TransportResponse) -> Bool {
      guard case .user? = customer, response.status == 401 else { return false }
      return ReceiptdError(response).code == .unauthenticated
    }
  }

  // MARK: Calls

  @inline(never) static func entitlements(of customer: Customer) -> Call {
    if case .device = customer { return device(customer, "GET", ["entitlements"]) }
    return premium("GET", of: customer)
  }

  @inline(never) private static func premium(_ method: String, of customer: Customer, body: Data? = nil)
    -> Call
  {
    Call(
      method, ["api", "v1", "profiles", customer.id, "premium"], hasBundleQuery: true, body: body,
      customer: customer)
  }

  static var keySet: Call { Call("GET", [".well-known", "jwks.json"]) }

  @inline(never) static func device(
    _ customer: Customer, _ method: String, _ path: [String], body: Data? = nil
  ) -> Call {
    Call(
      method, ["api", "v1", "devices", customer.id] + path, hasBundleQuery: true, body: body,
      customer: customer)
  }

  @inline(never) func call(_ proof: QueuedProof) -> Call {
    let body = proof.body.bytes
    if proof.isSync { return Self.premium("PUT", of: proof.customer, body: body) }
    return Call("POST", ["api", "v1", "subscriptions", "validate"], body: body, customer: proof.customer)
  }

  @inline(never) static func post(_ name: String, _ body: JSON, of customer: Customer?) -> Call {
    Call("POST", ["api", "v1", name], body: body.data, customer: customer)
  }

  // MARK: Sending

  /// Sends a call. After a 401 of a user it asks the app for a new token, once.
  /// - Returns: the body of a response of the 200s. A body that is not receiptd's, such as a captive portal's page with status
  ///   200, or one that was cut short, is an error after which the request is repeated.
  /// - Throws: ``ReceiptdError``, or `CancellationError`.
  @inline(never) func send(_ call: Call) async throws -> JSON {
    var response = try await exchange(call, isTokenNew: false)
    if call.isRefused(response) { response = try await exchange(call, isTokenNew: true) }
    return try Self.body(of: response)
  }

  @inline(never) private static func body(of response: TransportResponse) throws -> JSON {
    guard (200..<300).contains(response.status) else { throw ReceiptdError.refused(response) }
    guard let body = JSON(response.body), case .object = body else {
      throw ReceiptdError.unexpected(
        status: response.status, "HTTP \(response.status) with a body that is not receiptd's")
    }
    return body
  }

  @inline(never) private func request(_ call: Call) throws -> TransportRequest {
    let unreserved = CharacterSet(
      charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
    func escaped(_ text: String) -> String {
      text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? ""
    }
    var text = configuration.server.absoluteString
    while text.hasSuffix("/") { text.removeLast() }
    for part in call.path { text += "/" + escaped(part) }
    if call.hasBundleQuery { text += "?bundleID=" + escaped(configuration.bundleID) }
    guard let url = URL(string: text) else {
      throw ReceiptdError.wrongKind("'\(configuration.server)' is not an address")
    }
    var headers = ["Accept": "application/json"]
    if call.body != nil { headers["Content-Type"] = "application/json" }
    if case .device? = call.customer {
      do {
        headers["Receiptd-Device-Secret"] = try configuration.deviceSecret()
      } catch {
        throw ReceiptdError.store(error)
      }
    }
    return TransportRequest(method: call.method, url: url, headers: headers, body: call.body)
  }

  @inline(never) private func exchange(_ call: Call, isTokenNew: Bool) async throws -> TransportResponse {
    var request = try request(call)
    if case .user? = call.customer {
      request.headers["Authorization"] = try await authorization(call.customer, isTokenNew)
    }
    do {
      return try await configuration.transport.send(request)
    } catch {
      throw try Self.offline("\(type(of: error)) \((error as NSError).code)")
    }
  }

  /// The app's access token, if it can be this user's. `validate` names no user besides the token, so the token of a user who
  /// has just left would bind this user's purchase to the other one.
  @inline(never) private func authorization(_ customer: Customer?, _ isTokenNew: Bool) async throws -> String
  {
    do {
      return try Self.authorization(customer, try await token(isTokenNew))
    } catch {
      if error is ReceiptdError { throw error }
      throw try Self.offline("the app's token function failed: \(type(of: error))")
    }
  }

  /// - Throws: `CancellationError` where the task was cancelled.
  @inline(never) private static func offline(_ detail: String) throws -> any Error {
    try Task.checkCancellation()
    return ReceiptdError.offline(detail)
  }

  @inline(never) private static func authorization(_ customer: Customer?, _ token: String?) throws -> String {
    guard let token else { throw ReceiptdError.notSignedIn }
    if let subject = subject(of: token), subject.lowercased() != customer?.id {
      throw ReceiptdError.tokenOfAnother
    }
    return "Bearer \(token)"
  }

  /// The `sub` of a JWT, unverified; `nil` if it is none.
  @inline(never) private static func subject(of token: String) -> String? {
    let parts = token.components(separatedBy: ".")
    guard parts.count == 3, let payload = Base64URL.data(parts[1]) else { return nil }
    return JSON(payload)?["sub"]?.text
  }
}
