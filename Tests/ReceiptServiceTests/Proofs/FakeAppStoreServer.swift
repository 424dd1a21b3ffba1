import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Logging
import Synchronization

/// A fake App Store Server API that records requests and injects faults.
///
/// In production it has a subscription for every transaction id; the sandbox has none.
final class FakeAppStoreServer: Sendable {
  struct Ask: Sendable {
    /// The path without the id: rate limits count by endpoint.
    let endpoint: String
    let transactionID: String
    let instant: ContinuousClock.Instant
  }

  let authority: SigningAuthority
  let address: SocketAddress
  private let server: HTTPServer
  private let log: Log

  private final class Log: Sendable {
    let asks = Mutex<[Ask]>([])
    /// Returns a response in place of the usual one; `nil` for the usual one.
    let fault = Mutex<(@Sendable (Ask) -> Response?)?>(nil)
  }

  init() async throws {
    let authority = try SigningAuthority()
    let log = Log()
    self.authority = authority
    self.log = log
    var router = Router()
    for prefix in ["", "/sandbox"] {
      for endpoint in ["/inApps/v1/subscriptions/", "/inApps/v1/transactions/"] {
        router.onImmediate(.get, prefix + endpoint + "{id}") { request in
          let ask = Ask(
            endpoint: prefix + endpoint, transactionID: try request.parameters.require("id"), instant: .now)
          log.asks.withLock { $0.append(ask) }
          if let answer = log.fault.withLock({ $0 })?(ask) { return answer }
          guard prefix.isEmpty else { return .storeError(4_040_010) }
          return try endpoint.contains("subscriptions")
            ? Self.statuses(ask.transactionID, authority) : Self.transaction(ask.transactionID, authority)
        }
      }
    }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "store") { _ in SwiftLogNoOpLogHandler() })
    address = try server.start()
  }

  var asks: [Ask] { log.asks.withLock { $0 } }

  func set(fault: (@Sendable (Ask) -> Response?)?) { log.fault.withLock { $0 = fault } }

  func stop() async { await server.shutdown(within: .seconds(1)) }

  private static func statuses(_ id: String, _ authority: SigningAuthority) throws -> Response {
    var item = LastTransactionsItem()
    item.status = .active
    item.originalTransactionId = id
    item.signedTransactionInfo = try authority.signer.sign(info(id))
    var renewal = RenewalInfo(originalTransactionId: id, signedDate: Date(), environment: .production)
    renewal.productId = TestApps.monthly
    renewal.autoRenewStatus = .on
    item.signedRenewalInfo = try authority.signer.sign(renewal)
    var group = SubscriptionGroupIdentifierItem()
    group.lastTransactions = [item]
    var answer = StatusResponse()
    answer.data = [group]
    return try .json(.ok, answer)
  }

  private static func transaction(_ id: String, _ authority: SigningAuthority) throws -> Response {
    var answer = TransactionInfoResponse()
    answer.signedTransactionInfo = try authority.signer.sign(info(id))
    return try .json(.ok, answer)
  }

  static func info(_ id: String, in environment: AppStore.Environment = .production) -> TransactionInfo {
    let now = Date()
    var info = TransactionInfo(
      transactionId: id, originalTransactionId: id, bundleId: TestApps.climbing, productId: TestApps.monthly,
      purchaseDate: now - 86_400, signedDate: now, environment: environment)
    info.type = .autoRenewableSubscription
    info.expiresDate = now + 86_400
    return info
  }
}

extension Response {
  /// An error response of the App Store Server API.
  static func storeError(_ code: Int, retryAfter: Date? = nil) -> Response {
    var response = Response(
      status: .init(code: code / 10_000), headers: [.contentType: "application/json"],
      body: Array(#"{"errorCode":\#(code),"errorMessage":"No."}"#.utf8))
    if let retryAfter {
      response.headers[.retryAfter] = "\(Int64(retryAfter.timeIntervalSince1970 * 1000))"
    }
    return response
  }
}
