import Foundation

/// A client of one receiptd for one app: what the signed-in customer may do, also offline, and purchases that are not lost.
///
/// Make one for the app's life, call ``run()`` in a task, and ``signIn(_:)`` when the customer is known. Only one process may
/// use a store at a time.
public actor Receiptd<Features: Codable & Sendable> {
  /// The configuration with which the client was created.
  public nonisolated let configuration: ReceiptdConfiguration
  nonisolated let board: Board<Features>
  let api: API
  let verdict: (@Sendable (Customer) async -> DeviceVerdict<Features>?)?

  /// The signed-in customer. The number grows with each change, so that a late response is recognized.
  var customer: Customer?
  var generation = 0

  private var isLoaded = false
  private var keySet = KeySet()
  /// The uptime when keys were fetched last.
  private var keysAskedAt = -TimeInterval.infinity
  private var requestNumber = 0
  /// The number of the request whose response is held.
  private var heldNumber = 0
  private var refreshing: (generation: Int, task: Task<Entitlement<Features>, any Error>)?

  var proofs: [QueuedProof] = []
  var events = EventQueue()
  let proofTurn = Turnstile()
  let eventTurn = Turnstile()
  var proofPace = Pace()
  /// The pace of single purchases whose failure says nothing about the others.
  var itemPaces: [UUID: Pace] = [:]
  var outcomes: [UUID: Result<Entitlement<Features>, any Error>] = [:]
  var waiting: [UUID: Int] = [:]
  var eventPace = Pace()
  var eventsSince: TimeInterval?
  var refreshPace = Pace()
  var refreshDue: TimeInterval = 0
  var isRunning = false
  var isWoken = false
  var sleeper: Task<Void, Never>?

  /// Creates a client. It reads nothing yet.
  /// - Parameters:
  ///   - free: the features without access, and while nothing is known.
  ///   - token: the user's access token; `refresh` is true after the server refused the last one. `nil` means that no user is
  ///     signed in. Apps whose customers are devices return `nil`.
  ///   - deviceVerdict: StoreKit's own verdict, which stands in while the server is away and no signed entitlement is valid.
  ///     Without it such a customer has the free features.
  public init(
    _ configuration: ReceiptdConfiguration, free: Features,
    token: @escaping @Sendable (_ refresh: Bool) async throws -> String? = { _ in nil },
    deviceVerdict: (@Sendable (Customer) async -> DeviceVerdict<Features>?)? = nil
  ) {
    self.configuration = configuration
    api = API(configuration: configuration, token: token)
    board = Board(free: free, clock: configuration.clock)
    verdict = deviceVerdict
  }

  /// Creates a fake with a signed-in customer.
  init(_ configuration: ReceiptdConfiguration, free: Features, customer: Customer) {
    self.configuration = configuration
    api = API(configuration: configuration, token: { _ in "fake" })
    board = Board(free: free, clock: configuration.clock)
    verdict = nil
    self.customer = customer
  }

  // MARK: State

  /// What the customer may do now. It needs no network and no disk: the free features while nothing is known.
  public nonisolated var current: Entitlement<Features> { board.current }

  /// The entitlement now, and each change of it. Each call makes a stream of its own.
  public nonisolated var updates: AsyncStream<Entitlement<Features>> { board.stream() }

  var uptime: TimeInterval { configuration.clock.uptime().seconds }

  // MARK: Customer

  /// Makes this customer the current one, and refreshes in the background.
  /// - Returns: what is kept of the customer, at once.
  @discardableResult
  public func signIn(_ customer: Customer) async -> Entitlement<Features> {
    enter(customer)
    if isRunning {
      wake()
    } else {
      Task { _ = try? await refresh() }
    }
    return current
  }

  /// Makes the customer the current one without a request.
  func enter(_ customer: Customer) {
    load()
    refreshDue = uptime
    refreshPace.succeed()
    proofPace.succeed()
    if customer == self.customer { return }
    generation += 1
    self.customer = customer
    let held = kept(of: customer)
    heldNumber = 0
    board.state.with {
      $0.held = held
      $0.verdict = nil
    }
    board.publish()
  }

  /// Ends the customer's session and forgets what is kept of the customer's entitlement. Purchases that the server has not yet
  /// answered stay, and are sent when the same customer signs in again.
  public func signOut() async {
    load()
    if let customer { try? configuration.store.remove(StoreKeys.entitlement(of: customer)) }
    generation += 1
    customer = nil
    hide()
  }

  private func hide() {
    board.state.with {
      $0.held = nil
      $0.verdict = nil
    }
    board.publish()
  }

  // MARK: Refresh

  /// Asks the server what the customer may do. Calls at the same time share one request.
  /// - Throws: ``ReceiptdError``; ``current`` is what is kept then.
  @discardableResult
  public func refresh() async throws -> Entitlement<Features> {
    load()
    guard let customer else { throw ReceiptdError.notSignedIn }
    if let refreshing, refreshing.generation == generation { return try await refreshing.task.value }
    let generation = generation
    let task = Task { try await refreshOnce(customer, generation) }
    refreshing = (generation, task)
    defer { if refreshing?.generation == generation { refreshing = nil } }
    return try await task.value
  }

  private func refreshOnce(_ customer: Customer, _ generation: Int) async throws -> Entitlement<Features> {
    if let refusal = refreshPace.refusal(at: uptime) { throw refusal }
    do {
      let number = nextNumber()
      let answer = try API.read(
        API.EntitlementsAnswer.self, from: try await proving(API.entitlements(of: customer)))
      let entitlement = try await adopt(answer, pairing: answer.pairing, of: customer, generation, number)
      refreshPace.succeed()
      serverAnswered()
      scheduleRefresh()
      return entitlement
    } catch {
      guard generation == self.generation, let error = error as? ReceiptdError else { throw error }
      await refreshFailed(error, customer, generation)
      throw error
    }
  }

  private func refreshFailed(_ error: ReceiptdError, _ customer: Customer, _ generation: Int) async {
    refreshPace.fail(
      error, at: uptime, random: configuration.random(),
      first: current.source == .none ? Pace.urgent : Pace.background)
    refreshDue = refreshPace.due
    if error.code == .forbidden {
      // The access token is another user's: nothing of this customer may show.
      if error.status == 403 { try? configuration.store.remove(StoreKeys.entitlement(of: customer)) }
      hide()
      return
    }
    guard error.advice == .retry else { return }
    let found = current.source == .none || current.source == .device ? await verdict?(customer) : nil
    guard generation == self.generation else { return }
    board.state.with {
      $0.held?.isFresh = false
      $0.verdict = found
    }
    board.publish()
  }

  /// Sends a call; a device that the server does not recognize proves itself with the latest proof, once.
  func proving(_ call: API.Call) async throws -> TransportResponse {
    do {
      return try await api.send(call)
    } catch let error as ReceiptdError where error.advice == .restore {
      guard let customer = call.customer, try await proveDevice(customer) else { throw error }
      return try await api.send(call)
    }
  }

  /// The latest things that show the device's Apple Account.
  private struct DeviceProof: Codable {
    var signedTransaction: String?
    var signedAppTransaction: String?
  }

  /// Keeps a proof of the device's Apple Account, with which the server takes a new secret after a loss.
  func keepProof(signedTransaction: String? = nil, signedAppTransaction: String? = nil) {
    guard signedTransaction != nil || signedAppTransaction != nil else { return }
    var proof = decoded(DeviceProof.self, StoreKeys.deviceProof, in: configuration.queues) ?? DeviceProof()
    if let signedTransaction { proof.signedTransaction = signedTransaction }
    if let signedAppTransaction { proof.signedAppTransaction = signedAppTransaction }
    save(proof, StoreKeys.deviceProof, in: configuration.queues)
  }

  /// The latest app transaction that the app gave; `nil` for none.
  var keptAppTransaction: String? {
    decoded(DeviceProof.self, StoreKeys.deviceProof, in: configuration.queues)?.signedAppTransaction
  }

  private func proveDevice(_ customer: Customer) async throws -> Bool {
    guard case .device = customer,
      let proof = decoded(DeviceProof.self, StoreKeys.deviceProof, in: configuration.queues)
    else { return false }
    do {
      if let transaction = proof.signedTransaction {
        _ = try await api.send(api.call(.proof(.signedTransaction(transaction)), of: customer))
      } else if let app = proof.signedAppTransaction {
        _ = try await api.send(trialCall(app, of: customer))
      }
      return true
    } catch let error as ReceiptdError where error.code == .pairedDevice {
      // A child has no trial, but its app transaction was a proof.
      return true
    } catch let error as ReceiptdError where !error.isFinal && error.advice != .restore {
      throw error
    } catch is ReceiptdError {
      return false
    }
  }

  func trialCall(_ appTransaction: String, of customer: Customer) throws -> API.Call {
    try api.post(
      ["trials"],
      ["deviceID": customer.id, "bundleID": configuration.bundleID, "signedAppTransaction": appTransaction],
      of: customer)
  }

  func nextNumber() -> Int {
    requestNumber += 1
    return requestNumber
  }

  // MARK: Tokens

  /// Takes the token of a response, if it is genuine and not older than the held one.
  /// - Parameter number: the number of the request, because two responses of the same second may arrive in either order.
  func adopt(
    _ answer: API.EntitlementsAnswer, pairing: Pairing?, of customer: Customer, _ generation: Int,
    _ number: Int
  ) async throws -> Entitlement<Features> {
    guard let token = answer.entitlements.entitlementToken else {
      throw ReceiptdError.unverified("the response has no token")
    }
    let (claims, payload) = try await verify(token, of: customer)
    guard generation == self.generation else { throw ReceiptdError.customerChanged }
    let before = board.state.with { $0.held }
    if let before {
      if claims.iat < before.claims.iat {
        throw ReceiptdError.unverified("the token is older than the held one")
      }
      if claims.iat == before.claims.iat, number < heldNumber { return current }
    }
    let features: Features
    do {
      features = try KeySet.features(Features.self, in: payload)
    } catch {
      throw ReceiptdError.featuresUnreadable("\(error)")
    }
    let kept = KeptEntitlement(
      token: token, pairing: pairing,
      everHadAccess: answer.entitlements.everHadAccess ?? before?.kept.everHadAccess ?? claims.isAccessGranted
    )
    let clock = configuration.clock
    board.state.with {
      $0.held = Held(claims: claims, features: features, kept: kept, isFresh: true)
      $0.verdict = nil
      // A response of the same second is perhaps a replay, and tells no time.
      if claims.iat > before?.claims.iat ?? 0 { $0.time.hear(Date(timeIntervalSince1970: claims.iat), clock) }
    }
    heldNumber = number
    save(kept, StoreKeys.entitlement(of: customer), in: configuration.store)
    saveTime()
    board.publish()
    var entitlement = current
    entitlement.remark = answer.code
    return entitlement
  }

  private func verify(_ token: String, of customer: Customer) async throws -> (claims: Claims, payload: Data)
  {
    // A withdrawn key is noticed within a day, also where an attacker signs with it.
    if board.now.timeIntervalSince1970 - keySet.fetchedAt > 86_400 { try? await fetchKeys() }
    do {
      return try keySet.verify(token, app: configuration.bundleID, customer: customer.id)
    } catch KeySet.Refusal.unknownKey {
      guard uptime - keysAskedAt >= 60 else { throw ReceiptdError.unverified("the token's key is unknown") }
      try await fetchKeys()
      do {
        return try keySet.verify(token, app: configuration.bundleID, customer: customer.id)
      } catch {
        throw ReceiptdError.unverified("the server's key set does not have the token's key")
      }
    } catch {
      throw ReceiptdError.unverified("the token is not genuine, or not this customer's of this app")
    }
  }

  private func fetchKeys() async throws {
    let response = try await api.send(API.keySet)
    keysAskedAt = uptime
    guard let new = try? KeySet(response.body, at: board.now), !new.keys.isEmpty else {
      throw ReceiptdError.unexpected(status: response.status, "the key set cannot be read")
    }
    keySet = new
    save(new, StoreKeys.keySet, in: configuration.store)
    // What a withdrawn key signed is no longer believed.
    guard let customer, let held = board.state.with({ $0.held }) else { return }
    if (try? new.verify(held.kept.token, app: configuration.bundleID, customer: customer.id)) == nil {
      try? configuration.store.remove(StoreKeys.entitlement(of: customer))
      hide()
    }
  }

  private func kept(of customer: Customer) -> Held<Features>? {
    guard
      let kept = decoded(KeptEntitlement.self, StoreKeys.entitlement(of: customer), in: configuration.store),
      let (claims, payload) = try? keySet.verify(
        kept.token, app: configuration.bundleID, customer: customer.id),
      let features = try? KeySet.features(Features.self, in: payload)
    else { return nil }
    return Held(claims: claims, features: features, kept: kept, isFresh: false)
  }

  // MARK: Stores

  /// Reads what was kept, once. Where the keychain is still locked it is read again with the next call.
  func load() {
    if isLoaded { return }
    do {
      if let data = try configuration.store.read(StoreKeys.keySet) {
        keySet = (try? JSONDecoder().decode(KeySet.self, from: data)) ?? KeySet()
      }
      let time = try configuration.store.read(StoreKeys.clock)
        .flatMap { try? JSONDecoder().decode(TimeKeeper.self, from: $0) }
      let (proofs, events) = (
        try configuration.queues.read(StoreKeys.proofs), try configuration.queues.read(StoreKeys.events)
      )
      isLoaded = true
      if var time {
        // From now on the monotonic clock counts, also after a restart without the server.
        time.note(configuration.clock)
        board.state.with { $0.time = time }
      }
      // What was queued before the store could be read comes after what was kept.
      self.proofs =
        (proofs.flatMap { try? API.decoder.decode([QueuedProof].self, from: $0) } ?? []) + self.proofs
      var kept = events.flatMap { try? API.decoder.decode(EventQueue.self, from: $0) } ?? EventQueue()
      for event in self.events.events { kept.append(event) }
      self.events = kept
      if !kept.events.isEmpty { eventsSince = uptime - configuration.eventDelay }
      // The customer may have signed in while the keychain was locked.
      if let customer, board.state.with({ $0.held == nil }) {
        let held = self.kept(of: customer)
        board.state.with { $0.held = held }
        board.publish()
      }
    } catch {
      // Left for the next call.
    }
  }

  func saveTime() { save(board.state.with { $0.time }, StoreKeys.clock, in: configuration.store) }

  func saveProofs() { if isLoaded { save(proofs, StoreKeys.proofs, in: configuration.queues) } }

  func saveEvents() { if isLoaded { save(events, StoreKeys.events, in: configuration.queues) } }

  /// A value that cannot be written stays in memory: the next change writes it.
  private func save(_ value: some Encodable, _ key: String, in store: any EntitlementStore) {
    guard let data = try? API.encoder.encode(value) else { return }
    try? store.write(data, for: key)
  }

  private func decoded<Value: Decodable>(
    _ type: Value.Type, _ key: String, in store: any EntitlementStore
  ) -> Value? {
    (try? store.read(key)).flatMap { try? API.decoder.decode(type, from: $0) }
  }
}
