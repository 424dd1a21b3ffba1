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

  /// Serves a request: applies a fault and checks its token.
  private func serve(_ request: Request, _ endpoint: ServerEndpoint) async throws -> Response {
    let fault = store.takeFault(for: endpoint)
    switch fault?.fault {
    case nil: break
    case .error: return error(of: fault)
    case .unauthorized: return Self.unauthorized
    case .slow: try await Task.sleep(for: .seconds(fault?.delay ?? 1))
    case .close: throw ConnectionAbort()
    }
    let bundleID = await tokens.bundleID(ofAuthorization: request.headers[.authorization])
    guard let app = bundleID.flatMap(store.app) else { return Self.unauthorized }
    do {
      let answer = try answer(request, endpoint, of: app)
      if endpoint.isAction { store.keep(AcceptedRequest(endpoint: endpoint, body: request.body)) }
      return answer
    } catch let error as ServerAPIError {
      return error.response
    } catch StoreRefusal.serverAPI(let code) {
      return ServerAPIError(code).response
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

  /// Apple's answer without JSON, both for an invalid token and for an app that was never released.
  private static let unauthorized = Response.text(.unauthorized, "Unauthenticated\n")

  private func error(of fault: ServerFault?) -> Response {
    let code = fault?.code ?? .generalInternal
    var response = ServerAPIError(code).response
    if code == .rateLimitExceeded {
      // Apple's unit: a UNIX time in milliseconds, not a number of seconds.
      let end = store.clock.now.addingTimeInterval(fault?.retryAfter ?? 1)
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

  /// The transaction id in the path: 1 to 32 digits.
  func transactionID(
    _ request: Request, _ name: String, orThrow code: AppStoreErrorCode = .invalidTransactionId
  ) throws -> String {
    guard let id = request.parameters[name], (1...32).contains(id.utf8.count),
      id.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
    else { throw ServerAPIError(code) }
    return id
  }

  /// Decodes the body.
  func body<Value: Decodable>(_ request: Request, as type: Value.Type = Value.self) throws -> Value {
    do {
      return try JSONDecoder().decode(type, from: Data(request.body))
    } catch {
      throw ServerAPIError(error)
    }
  }

  /// Sends notifications in order after the response, as Apple does.
  func sendLater(_ notifications: [SignedNotification]) {
    Task {
      for notification in notifications { await store.deliver(notification.uuid) }
    }
  }
}
