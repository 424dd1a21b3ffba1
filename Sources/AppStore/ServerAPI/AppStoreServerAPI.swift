import FoundationEssentials
import HTTPTypes

/// The App Store Server API for one app.
///
/// It is polite: each endpoint is asked at most at the rate that Apple publishes, what fails is tried again only where
/// Apple says so, a store that is down is left alone, and the same question asked by many is asked once. A call may
/// therefore wait, as long as its `patience`; copies of a value share what they know of the store, whatever their
/// patience.
///
/// Signed data in answers is not verified here: give it to `SignedDataVerifier`.
public struct AppStoreServerAPI: Sendable {
  /// The longest answer that is decoded; the longest known ones, pages of history, have some 200 kB.
  static let maximumAnswer = 8 * 1024 * 1024

  private let exchange: ServerExchange
  private let production: StoreHost
  private let sandbox: StoreHost
  private let answers: SharedAnswers
  private let clock: StoreClock
  private let onCall: (@Sendable (StoreCallReport) -> Void)?
  private var patience: Duration
  /// When the patience of all calls together ends; nil if each has its own.
  private var deadline: ContinuousClock.Instant?
  private var maximumAge: TimeInterval = AnswerMemory.lifetime
  private var isForUnknownIDs = false

  /// - Parameters:
  ///   - bundleID: the app, which every token names.
  ///   - production: where production is.
  ///   - sandbox: where the sandbox is.
  ///   - timeout: for each request.
  ///   - patience: for each call, waiting, requests and retries together.
  ///   - clock: time and chance.
  ///   - onCall: is told of each request, and of each call that made none; it must not wait.
  public init(
    transport: any HTTPTransport, credentials: AppStoreCredentials, bundleID: String,
    production: AppStoreAddress = .production, sandbox: AppStoreAddress = .sandbox,
    timeout: Duration = .seconds(10), patience: Duration = .seconds(5), clock: StoreClock = .system,
    onCall: (@Sendable (StoreCallReport) -> Void)? = nil
  ) {
    exchange = ServerExchange(
      transport: transport,
      tokens: BearerTokens(credentials: credentials, bundleID: bundleID, now: clock.date), timeout: timeout)
    self.production = StoreHost(.production, at: production, clock: clock)
    self.sandbox = StoreHost(.sandbox, at: sandbox, clock: clock)
    answers = SharedAnswers(clock: clock)
    self.clock = clock
    self.onCall = onCall
    self.patience = patience
  }

  /// The same API for another kind of caller.
  ///
  /// - Parameters:
  ///   - patience: how long each call may take altogether. A background job can wait for its turn much longer than
  ///     somebody with a phone in the hand.
  ///   - maximumAge: how old an answer may be, up to 3 s. With zero the store is asked anew, or an answer that is on
  ///     its way is awaited.
  public func with(patience: Duration, maximumAge: Duration = .seconds(3)) -> Self {
    var api = self
    api.patience = patience
    api.deadline = nil
    api.maximumAge = maximumAge / .seconds(1)
    return api
  }

  /// The same API for several calls that serve one request: from now on they may take the patience of one together.
  public func forOneRequest() -> Self {
    var api = self
    api.deadline = clock.instant() + patience
    return api
  }

  /// The same API for calls about transaction ids that may be invented: of each endpoint's rate and line they get three
  /// fifths at most, so that a flood of them leaves the rest to other calls.
  public func forUnknownIDs() -> Self {
    var api = self
    api.isForUnknownIDs = true
    return api
  }

  /// Whether an environment is left alone because it did not answer, or was and has not answered since.
  public func isLeftAlone(_ environment: Environment) -> Bool {
    switch environment {
    case .production: production.isLeftAlone
    case .sandbox: sandbox.isLeftAlone
    default: false
    }
  }

  /// Calls an endpoint whose answer has a body.
  func call<Answer: Decodable>(
    _ call: ServerCall, in environment: Environment, as _: Answer.Type = Answer.self
  ) async throws(AppStoreServerError) -> Answer {
    let success = try await carryOut(call, in: environment).get()
    do {
      return try JSONDecoder().decode(Answer.self, from: Data(success.body))
    } catch {
      throw .undecodableAnswer(status: success.status, detail: "not the JSON of \(Answer.self)")
    }
  }

  /// Calls an endpoint whose answer is its status.
  func call(_ call: ServerCall, in environment: Environment) async throws(AppStoreServerError) {
    _ = try await carryOut(call, in: environment).get()
  }

  private func carryOut(_ call: ServerCall, in environment: Environment) async -> ServerAnswer {
    let host: StoreHost
    switch environment {
    case .production: host = production
    case .sandbox: host = sandbox
    default: return .failure(.invalidArgument("environment"))
    }
    let deadline = deadline ?? clock.instant() + patience
    let ask: @Sendable () async -> ServerAnswer = { [exchange, onCall, isForUnknownIDs] in
      let answer = await host.carryOut(
        call.endpoint, isOfUnknownID: isForUnknownIDs, by: deadline
      ) { limit in
        guard let onCall else { return await exchange.send(call, to: host.address, within: limit) }
        let start = ContinuousClock.now
        let answer = await exchange.send(call, to: host.address, within: limit)
        onCall(StoreCallReport(call.endpoint, environment, answer, duration: .now - start))
        return answer
      }
      if answer.isRefusal { onCall?(StoreCallReport(call.endpoint, environment, answer, duration: nil)) }
      return answer
    }
    if call.endpoint.isShared {
      return await answers.answer(
        to: Question(environment: environment, path: call.path), by: deadline, maximumAge: maximumAge,
        ask: ask)
    }
    let answer = await ask()
    // Whoever asks after a change must not be told of the time before it.
    if call.endpoint.changesPurchases { answers.forget() }
    return answer
  }
}
