import AppStore
import Foundation
import HTTP
import HTTPTypes

/// The App Store Server API of one environment.
struct ServerAPIRoutes: Sendable {
  let store: SimulatedAppStore
  let tokens: ConnectTokenVerifier
  let environment: Environment
  /// The path prefix: empty in production, `/sandbox` in the sandbox.
  let prefix: String

  /// Apple's page length.
  static let pageLength = 20

  func add(to router: inout Router) {
    for endpoint in ServerEndpoint.allCases {
      router.on(endpoint.method, prefix + endpoint.path) { request in
        try await serve(request, endpoint)
      }
    }
  }

  /// Serves a request: records it, checks its token and applies a fault.
  private func serve(_ request: Request, _ endpoint: ServerEndpoint) async throws -> Response {
    let bundleID = await tokens.bundleID(ofAuthorization: request.headers[.authorization])
    let fault = store.takeFault(for: endpoint, in: environment)
    let query = request.query.raw.isEmpty ? "" : "?\(request.query.raw)"
    let number = store.note(
      ServerRequest(
        at: Date().millisecondsSince1970 ?? 0, method: endpoint.method.rawValue,
        path: request.path.dropFirst(prefix.count) + query, endpoint: endpoint, environment: environment,
        bundleID: bundleID, fault: fault?.fault))
    let response = try await answer(
      request, endpoint, callers: bundleID.flatMap { store.app($0) }, despite: fault)
    store.noteAnswer(number, status: response.status.code)
    return response
  }

  private func answer(
    _ request: Request, _ endpoint: ServerEndpoint, callers app: StoreApp?, despite fault: ServerFault?
  ) async throws -> Response {
    switch fault?.fault {
    case nil: return try answer(request, endpoint, callers: app)
    case .error: return error(of: fault)
    case .unauthorized: return Self.unauthorized
    case .slow:
      try await Task.sleep(for: .seconds(fault?.delay ?? 1))
      return try answer(request, endpoint, callers: app)
    case .close: throw ConnectionAbort()
    case .cut: throw ConnectionAbort(sending: try answer(request, endpoint, callers: app).firstHalf)
    }
  }

  private func answer(
    _ request: Request, _ endpoint: ServerEndpoint, callers app: StoreApp?
  ) throws -> Response {
    // Apple answers 401 without JSON both for an invalid token and for an app that was never released.
    guard let app, app.isReleased || environment != .production else { return Self.unauthorized }
    do {
      return try answer(request, endpoint, of: app)
    } catch let error as ServerAPIError {
      return error.response
    }
  }

  private func answer(
    _ request: Request, _ endpoint: ServerEndpoint, of app: StoreApp
  ) throws -> Response {
    switch endpoint {
    case .transactionInfo: try transactionInfo(request, of: app)
    case .history: try history(request, of: app)
    case .orderLookup: try lookUpOrder(request, of: app)
    case .statuses: try statuses(request, of: app)
    case .extend: try extend(request, of: app)
    case .extendAll: try extendAll(request, of: app)
    case .extendAllStatus: try extensionStatus(request, of: app)
    case .accountToken: try setAccountToken(request, of: app)
    case .consumption: try takeConsumption(request, of: app)
    case .notificationHistory: try notificationHistory(request, of: app)
    case .testNotification: try requestTestNotification(of: app)
    case .testNotificationStatus: try testNotificationStatus(request, of: app)
    }
  }

  private static let unauthorized = Response.text(.unauthorized, "Unauthenticated\n")

  private func error(of fault: ServerFault?) -> Response {
    let code = fault?.code ?? .generalInternal
    var response = ServerAPIError(code: code, message: "The simulator was told to fail.").response
    if code == .rateLimitExceeded {
      // Apple's unit: a UNIX time in milliseconds, not a number of seconds.
      let end = store.clock().addingTimeInterval(fault?.retryAfter ?? 1)
      response.headers[.retryAfter] = end.millisecondsSince1970?.description
    }
    return response
  }

  // MARK: Shared

  func sign(_ payload: some SignedPayload) throws -> String {
    try store.identity.authority.signer.sign(payload)
  }

  /// Apple omits the number in the sandbox.
  func appAppleID(of app: StoreApp) -> Int64? {
    environment == .production ? app.appAppleID : nil
  }

  /// The transaction id in the path.
  func transactionID(
    _ request: Request, _ name: String, orThrow error: ServerAPIError = .invalidTransactionID
  ) throws -> String {
    try Self.checked(request.parameters[name], orThrow: error)
  }

  /// Checks that a text is a transaction id: 1 to 32 digits.
  static func checked(_ id: String?, orThrow error: ServerAPIError) throws(ServerAPIError) -> String {
    guard let id, (1...32).contains(id.utf8.count),
      id.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
    else { throw error }
    return id
  }

  /// Decodes the body.
  func body<Value: Decodable>(_ request: Request, as type: Value.Type = Value.self) throws -> Value {
    guard let value = try? JSONDecoder().decode(type, from: Data(request.body)) else {
      throw ServerAPIError.generalBadRequest
    }
    return value
  }
}

/// A member of a body that is decoded separately, because Apple's error names the wrong one.
struct Member<Value: Decodable>: Decodable {
  /// The value; nil if it has another type.
  let value: Value?

  init(from decoder: any Decoder) throws {
    value = try? decoder.singleValueContainer().decode(Value.self)
  }
}

extension Response {
  /// The response up to the middle of its body.
  fileprivate var firstHalf: [UInt8] {
    var head = "HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\nContent-Length: \(body.count)\r\n"
    for field in headers { head += "\(field.name): \(field.value)\r\n" }
    return Array((head + "\r\n").utf8) + body.prefix(body.count / 2)
  }
}
