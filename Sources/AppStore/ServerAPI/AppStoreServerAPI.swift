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
