import Foundation
import HTTPTypes

/// A client of the App Store Server API for one app.
///
/// It keeps Apple's published rate of each endpoint, retries only where Apple says so, stops calling a server that is
/// down, and coalesces equal concurrent requests. A call may therefore wait, up to its timeout. Copies of a value share
/// rate limits, circuit breakers and cache.
///
/// It does not verify signed data in responses: `SignedDataVerifier` does.
public struct AppStoreServerAPI: Sendable {
  /// The bound of a response. The longest known ones, pages of history, have about 200 kB.
  static let maximumResponseLength = 8 * 1024 * 1024

  private let exchange: ServerExchange
  private let production: StoreHost
  private let sandbox: StoreHost
  private let responses: SharedResponses
  private let clock: StoreClock
  private let onCall: (@Sendable (StoreCallReport) -> Void)?
  private var timeout: Duration
  /// The common deadline of all calls; nil if each call has a timeout of its own.
  private var deadline: ContinuousClock.Instant?
  private var maximumAge: TimeInterval = ResponseCache.lifetime
  private var isForUnknownIDs = false

  /// - Parameters:
  ///   - bundleID: the app that every token names.
  ///   - production: the address of production.
  ///   - sandbox: the address of the sandbox.
  ///   - requestTimeout: for each HTTP request.
  ///   - timeout: for each call with its waits, requests and retries.
  ///   - clock: time and randomness.
  ///   - onCall: receives a report of each request, and of each call without a request; it must not block.
  public init(
    transport: any HTTPTransport, credentials: AppStoreCredentials, bundleID: String,
    production: AppStoreAddress = .production, sandbox: AppStoreAddress = .sandbox,
    requestTimeout: Duration = .seconds(10), timeout: Duration = .seconds(5), clock: StoreClock = .system,
    onCall: (@Sendable (StoreCallReport) -> Void)? = nil
  ) {
    exchange = ServerExchange(
      transport: transport,
      tokens: BearerTokens(credentials: credentials, bundleID: bundleID, now: clock.date),
      requestTimeout: requestTimeout)
    self.production = StoreHost(.production, at: production, clock: clock)
    self.sandbox = StoreHost(.sandbox, at: sandbox, clock: clock)
    responses = SharedResponses(clock: clock)
    self.clock = clock
    self.onCall = onCall
    self.timeout = timeout
  }

  /// Returns the same client with other limits.
  ///
  /// - Parameters:
  ///   - timeout: for each call. A background job can wait much longer than a client's request.
  ///   - maximumAge: the largest age of a cached response, up to 3 s. Zero sends a request, or joins an equal one that
  ///     is on its way.
  public func with(timeout: Duration, maximumAge: Duration = .seconds(3)) -> Self {
    var api = self
    api.timeout = timeout
    api.deadline = nil
    api.maximumAge = maximumAge / .seconds(1)
    return api
  }

  /// Returns the same client for several calls that serve one request: they share one timeout, which begins now.
  public func forOneRequest() -> Self {
    var api = self
    api.deadline = clock.instant() + timeout
    return api
  }

  /// Returns the same client for calls about transaction ids that may be invented. They get at most three fifths of
  /// each endpoint's rate and queue, so that a flood of them leaves the rest to other calls.
  public func forUnknownIDs() -> Self {
    var api = self
    api.isForUnknownIDs = true
    return api
  }

  /// Whether the circuit breaker of an environment is open, or its probe is on its way.
  public func isCircuitOpen(_ environment: Environment) -> Bool {
    switch environment {
    case .production: production.isCircuitOpen
    case .sandbox: sandbox.isCircuitOpen
    default: false
    }
  }

  /// Calls an endpoint whose response has a body.
  func call<Response: Decodable>(
    _ call: ServerCall, in environment: Environment, as _: Response.Type = Response.self
  ) async throws(AppStoreServerError) -> Response {
    let success = try await carryOut(call, in: environment).get()
    do {
      return try JSONDecoder().decode(Response.self, from: Data(success.body))
    } catch {
      throw .undecodableAnswer(status: success.status, detail: "not the JSON of \(Response.self)")
    }
  }

  /// Calls an endpoint whose response is its status.
  func call(_ call: ServerCall, in environment: Environment) async throws(AppStoreServerError) {
    _ = try await carryOut(call, in: environment).get()
  }

  private func carryOut(_ call: ServerCall, in environment: Environment) async -> ServerResult {
    let host: StoreHost
    switch environment {
    case .production: host = production
    case .sandbox: host = sandbox
    default: return .failure(.invalidArgument("environment"))
    }
    let deadline = deadline ?? clock.instant() + timeout
    let send: @Sendable () async -> ServerResult = { [exchange, onCall, isForUnknownIDs] in
      let result = await host.carryOut(
        call.endpoint, isOfUnknownID: isForUnknownIDs, by: deadline
      ) { limit in
        guard let onCall else { return await exchange.send(call, to: host.address, within: limit) }
        let start = ContinuousClock.now
        let result = await exchange.send(call, to: host.address, within: limit)
        onCall(StoreCallReport(call.endpoint, environment, result, duration: .now - start))
        return result
      }
      if result.isRefusal { onCall?(StoreCallReport(call.endpoint, environment, result, duration: nil)) }
      return result
    }
    if call.endpoint.isShared {
      return await responses.result(
        of: RequestKey(environment: environment, path: call.path), by: deadline, maximumAge: maximumAge,
        send: send)
    }
    let result = await send()
    // A read after a change must not return the state from before it.
    if call.endpoint.changesPurchases { responses.invalidate() }
    return result
  }
}

/// A transaction and its environment.
public struct LocatedTransaction: Hashable, Sendable {
  /// The environment that knows the transaction.
  public let environment: Environment
  /// A JWS of a `TransactionInfo`, not yet verified.
  public let signedTransactionInfo: String
}

extension AppStoreServerAPI {
  /// Reads the current state of one transaction (Get Transaction Info).
  public func transactionInfo(
    _ transactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> TransactionInfoResponse {
    try await call(
      ServerCall(.transactionInfo, ["inApps", "v1", "transactions", transactionID.asTransactionID()]),
      in: environment)
  }

  /// Reads one transaction whose environment is unknown: tries production, then the sandbox, as Apple advises.
  ///
  /// The sandbox follows if production does not know the transaction, or answers 401 without JSON, as it does for an
  /// app that was never released. If the sandbox answers 401 as well, the token is invalid. Production answers so for
  /// released apps too, now and then, so a transaction is not unknown because of it.
  ///
  /// - Throws: `transactionNotFound` if neither environment knows it; `answeredBySandboxAlone`.
  public func locate(_ transactionID: String) async throws(AppStoreServerError) -> LocatedTransaction {
    try await productionThenSandbox { environment throws(AppStoreServerError) in
      guard let jws = try await transactionInfo(transactionID, in: environment).signedTransactionInfo else {
        throw .undecodableAnswer(status: 200, detail: "without signedTransactionInfo")
      }
      return LocatedTransaction(environment: environment, signedTransactionInfo: jws)
    }
  }

  func productionThenSandbox<Found>(
    _ ask: (Environment) async throws(AppStoreServerError) -> Found
  ) async throws(AppStoreServerError) -> Found {
    let isUnknownInProduction: Bool
    do {
      return try await ask(.production)
    } catch .rejected(let rejection) where rejection.code?.meansUnknown == true {
      isUnknownInProduction = true
    } catch .unauthorizedWithoutJSON {
      isUnknownInProduction = false
    }
    do {
      return try await ask(.sandbox)
    } catch .rejected(let rejection) where rejection.code?.meansUnknown == true {
      throw isUnknownInProduction ? .transactionNotFound : .answeredBySandboxAlone
    }
  }

  /// Reads one page of a customer's transactions, the last modified first (Get Transaction History, version 2).
  ///
  /// - Parameter revision: the `revision` of the previous page; nil for the first page.
  public func transactionHistory(
    anyTransactionID: String, revision: String? = nil, in environment: Environment
  ) async throws(AppStoreServerError) -> HistoryResponse {
    let query = (revision.map { [("revision", $0)] } ?? []) + [("sort", "DESCENDING")]
    return try await call(
      ServerCall(
        .transactionHistory, ["inApps", "v2", "history", anyTransactionID.asTransactionID()], query: query),
      in: environment)
  }

  /// Reads the transactions of an order id from a customer's receipt (Look Up Order ID).
  public func lookUpOrder(
    _ orderID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> OrderLookupResponse {
    try await call(
      ServerCall(.orderLookup, ["inApps", "v1", "lookup", orderID.asPathSegment("orderID")]), in: environment)
  }

  /// Sends the consumption of a purchase whose refund the customer requests (Send Consumption Information, version 2):
  /// only with the customer's consent, and within 12 hours.
  public func sendConsumption(
    of transactionID: String, _ request: ConsumptionRequest, in environment: Environment
  ) async throws(AppStoreServerError) {
    try await call(
      ServerCall(
        .consumption, ["inApps", "v2", "transactions", "consumption", transactionID.asTransactionID()],
        json: request),
      in: environment)
  }

  /// Sets the app's customer id on a purchase (Set App Account Token).
  public func setAppAccountToken(
    originalTransactionID: String, _ request: UpdateAppAccountTokenRequest, in environment: Environment
  ) async throws(AppStoreServerError) {
    let id = try originalTransactionID.asTransactionID("originalTransactionID")
    try await call(
      ServerCall(.appAccountToken, ["inApps", "v1", "transactions", id, "appAccountToken"], json: request),
      in: environment)
  }
}

/// A customer's subscriptions and their environment.
public struct LocatedStatuses: Hashable, Sendable {
  /// The environment that knows the transaction.
  public let environment: Environment
  /// The latest transaction of each subscription.
  public let subscriptions: [LastTransactionsItem]
}

extension AppStoreServerAPI {
  /// Reads the states of all subscriptions of a customer, by group (Get All Subscription Statuses).
  public func subscriptionStatuses(
    anyTransactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> StatusResponse {
    try await call(
      ServerCall(
        .subscriptionStatuses, ["inApps", "v1", "subscriptions", anyTransactionID.asTransactionID()]),
      in: environment)
  }

  /// Reads the states of all subscriptions of a customer whose environment is unknown: tries production, then the
  /// sandbox, like ``locate(_:)``.
  ///
  /// - Returns: nil if neither environment knows the transaction.
  public func locateSubscriptions(
    anyTransactionID: String
  ) async throws(AppStoreServerError) -> LocatedStatuses? {
    do {
      return try await productionThenSandbox { environment throws(AppStoreServerError) in
        let answer = try await subscriptionStatuses(anyTransactionID: anyTransactionID, in: environment)
        return LocatedStatuses(
          environment: environment,
          subscriptions: (answer.data ?? []).flatMap { $0.lastTransactions ?? [] })
      }
    } catch .transactionNotFound {
      return nil
    }
  }

  /// Extends the renewal date of one subscription (Extend a Subscription Renewal Date): by at most 90 days, twice a
  /// year, and not for family members.
  public func extendRenewalDate(
    originalTransactionID: String, _ request: ExtendRenewalDateRequest, in environment: Environment
  ) async throws(AppStoreServerError) -> ExtendRenewalDateResponse {
    let id = try originalTransactionID.asTransactionID("originalTransactionID")
    return try await call(
      ServerCall(.extendRenewalDate, ["inApps", "v1", "subscriptions", "extend", id], json: request),
      in: environment)
  }

  /// Extends the renewal dates of all active subscribers of a product (Extend Subscription Renewal Dates for
  /// All Active Subscribers).
  public func extendRenewalDates(
    _ request: MassExtendRenewalDateRequest, in environment: Environment
  ) async throws(AppStoreServerError) -> MassExtendRenewalDateResponse {
    try await call(
      ServerCall(.extendRenewalDates, ["inApps", "v1", "subscriptions", "extend", "mass"], json: request),
      in: environment)
  }

  /// Reads the progress of a mass extension (Get Status of Subscription Renewal Date Extensions).
  public func extensionStatus(
    productID: String, requestIdentifier: String, in environment: Environment
  ) async throws(AppStoreServerError) -> MassExtendRenewalDateStatusResponse {
    let product = try productID.asPathSegment("productID")
    let request = try requestIdentifier.asPathSegment("requestIdentifier")
    return try await call(
      ServerCall(.extensionStatus, ["inApps", "v1", "subscriptions", "extend", "mass", product, request]),
      in: environment)
  }
}

extension AppStoreServerAPI {
  /// Reads one page of the notifications that the App Store sent or tried to send (Get Notification History): up to 20,
  /// reaching 180 days back in production and 30 in the sandbox.
  ///
  /// - Parameter paginationToken: the token of the previous page; nil for the first page.
  public func notificationHistory(
    _ request: NotificationHistoryRequest, paginationToken: String? = nil, in environment: Environment
  ) async throws(AppStoreServerError) -> NotificationHistoryResponse {
    try await call(
      ServerCall(
        .notificationHistory, ["inApps", "v1", "notifications", "history"],
        query: paginationToken.map { [("paginationToken", $0)] } ?? [], json: request),
      in: environment)
  }
}
