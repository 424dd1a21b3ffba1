import Foundation

/// The client without the app's feature type: ``Receiptd`` adds it.
///
/// Nothing of it is inlined: the compiler repeats what follows an `await` for each way to it, with all that is inlined there.
actor Core {
  let configuration: ReceiptdConfiguration
  nonisolated let board: Board
  let api: API
  private let verdict: (@Sendable (Customer) async -> Access?)?
  /// Reads the features of a verified payload in the app's type.
  private let features: @Sendable (Data) throws -> AnyFeatures

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
  /// The last number that a request had when the response to a purchase or a trial came.
  private var changedNumber = 0
  private var refreshing: (generation: Int, task: Task<Access, any Error>)?

  var proofs: [QueuedProof] = []
  var events = EventQueue()
  let proofTurn = Turnstile()
  let eventTurn = Turnstile()
  var proofPace = Pace()
  var eventPace = Pace()
  var eventsSince: TimeInterval?
  var refreshPace = Pace()
  var refreshDue: TimeInterval = 0
  var isRunning = false
  var isWoken = false
  var sleeper: Task<Void, Never>?

  init(
    _ configuration: ReceiptdConfiguration, free: AnyFeatures, customer: Customer?,
    token: @escaping @Sendable (Bool) async throws -> String?,
    verdict: (@Sendable (Customer) async -> Access?)?,
    features: @escaping @Sendable (Data) throws -> AnyFeatures
  ) {
    self.configuration = configuration
    self.customer = customer
    self.verdict = verdict
    self.features = features
    api = API(configuration: configuration, token: token)
    board = Board(free: free, clock: configuration.clock)
  }

  var uptime: TimeInterval { configuration.clock.uptime().seconds }

  // MARK: Customer

  @inline(never) func signIn(_ customer: Customer) -> Access {
    enter(customer)
    if isRunning {
      wake()
    } else {
      Task { _ = try? await refresh() }
    }
    return board.current
  }

  /// Makes the customer the current one without a request.
  @inline(never) func enter(_ customer: Customer) {
    load()
    refreshDue = uptime
    refreshPace.succeed()
    proofPace.succeed()
    if customer == self.customer { return }
    generation += 1
    self.customer = customer
    heldNumber = 0
    board.show(kept(of: customer))
  }

  @inline(never) func signOut() {
    load()
    if let customer { try? configuration.store.remove(StoreKeys.entitlement(of: customer)) }
    generation += 1
    customer = nil
    board.show(nil)
  }

  @inline(never) func signedIn() throws -> Customer {
    load()
    guard let customer else { throw ReceiptdError.notSignedIn }
    return customer
  }

  // MARK: Refresh

  @discardableResult
  @inline(never) func refresh() async throws -> Access {
    let customer = try signedIn()
    if let refreshing, refreshing.generation == generation { return try await refreshing.task.value }
    let generation = generation
    let task = Task { try await refreshOnce(customer, generation) }
    refreshing = (generation, task)
    defer { if refreshing?.generation == generation { refreshing = nil } }
    return try await task.value
  }

  @inline(never) private func refreshOnce(_ customer: Customer, _ generation: Int) async throws -> Access {
    if let refusal = refreshPace.refusal(at: uptime) { throw refusal }
    do {
      var number = nextNumber()
      var answer = try await entitlements(API.entitlements(of: customer))
      if generation == self.generation, number <= changedNumber {
        // A purchase or a trial was answered meanwhile, and this response may be from before it.
        number = nextNumber()
        answer = try await entitlements(API.entitlements(of: customer))
      }
      let access = try await adopt(
        answer, pairing: Pairing(answer["pairing"]), of: customer, generation, number)
      refreshPace.succeed()
      serverAnswered()
      scheduleRefresh()
      return access
    } catch {
      if generation == self.generation { await refreshFailed(error, customer, generation) }
      throw error
    }
  }

  @inline(never) private func refreshFailed(_ error: any Error, _ customer: Customer, _ generation: Int) async
  {
    guard isAway(after: error, of: customer) else { return }
    let source = board.current.source
    let found = source == .none || source == .device ? await verdict?(customer) : nil
    if generation == self.generation { board.show(board.held, verdict: found) }
  }

  /// Plans the next attempt after an error.
  /// - Returns: whether the server is away.
  @inline(never) private func isAway(after error: any Error, of customer: Customer) -> Bool {
    guard let error = error as? ReceiptdError else { return false }
    refreshPace.fail(
      error, at: uptime, random: configuration.random(),
      first: board.current.source == .none ? Pace.urgent : Pace.background)
    refreshDue = refreshPace.due
    guard error.code == .forbidden else { return error.advice == .retry }
    // The access token is another user's: nothing of this customer may show.
    if error.status == 403 { try? configuration.store.remove(StoreKeys.entitlement(of: customer)) }
    board.show(nil)
    return false
  }

  /// Sends a call; a device that the server does not recognize proves itself with the latest proof, once.
  @inline(never) func proving(_ call: API.Call) async throws -> JSON {
    do {
      return try await api.send(call)
    } catch {
      guard ReceiptdError.advice(error) == .restore, try await proveDevice(call.customer) else { throw error }
    }
    return try await api.send(call)
  }

  /// Sends a call whose response has entitlements.
  @inline(never) func entitlements(_ call: API.Call) async throws -> JSON {
    let answer = try await proving(call)
    guard case .object? = answer["entitlements"] else {
      throw ReceiptdError.unexpected(status: 200, "the response has no entitlements")
    }
    return answer
  }

  /// Keeps a proof of the device's Apple Account, with which the server takes a new secret after a loss.
  @inline(never) func keepProof(signedTransaction: String? = nil, signedAppTransaction: String? = nil) {
    guard signedTransaction != nil || signedAppTransaction != nil else { return }
    let kept = decoded(StoreKeys.deviceProof, in: configuration.queues)
    save(
      .members(
        ("signedTransaction", JSON(signedTransaction) ?? kept?["signedTransaction"]),
        ("signedAppTransaction", JSON(signedAppTransaction) ?? kept?["signedAppTransaction"])),
      StoreKeys.deviceProof, in: configuration.queues)
  }

  /// The latest app transaction that the app gave; `nil` for none.
  var keptAppTransaction: String? {
    decoded(StoreKeys.deviceProof, in: configuration.queues)?["signedAppTransaction"]?.text
  }

  @inline(never) private func proveDevice(_ customer: Customer?) async throws -> Bool {
    guard let call = proof(of: customer) else { return false }
    do {
      _ = try await api.send(call)
      return true
    } catch {
      return try isProven(after: error)
    }
  }

  /// The request that shows the kept proof of a device.
  @inline(never) private func proof(of customer: Customer?) -> API.Call? {
    guard let customer, case .device = customer,
      let proof = decoded(StoreKeys.deviceProof, in: configuration.queues)
    else { return nil }
    if let transaction = proof.text(of: "signedTransaction") {
      return api.call(
        QueuedProof(.signedTransaction(transaction), of: customer, app: configuration.bundleID))
    }
    return proof.text(of: "signedAppTransaction").map { trialCall($0, of: customer) }
  }

  @inline(never) private func isProven(after error: any Error) throws -> Bool {
    guard let error = error as? ReceiptdError else { throw error }
    // A child has no trial, but its app transaction was a proof.
    if error.code == .pairedDevice { return true }
    if error.isFinal || error.advice == .restore { return false }
    throw error
  }

  @inline(never) func trialCall(_ appTransaction: String, of customer: Customer) -> API.Call {
    API.post(
      "trials",
      .members(
        ("deviceID", .text(customer.id)), ("bundleID", .text(configuration.bundleID)),
        ("signedAppTransaction", .text(appTransaction))),
      of: customer)
  }

  @inline(never) func nextNumber() -> Int {
    requestNumber += 1
    return requestNumber
  }

  // MARK: Tokens

  /// Takes the token of a response, if it is genuine and not older than the held one.
  ///
  /// The response to a purchase or a trial counts more than one of the same second that only reads: that one may be from
  /// before the change, in whatever order they arrive.
  /// - Parameter number: the number of the request, because two responses of the same second may arrive in either order;
  ///   `nil` for a purchase or a trial.
  @inline(never) func adopt(
    _ answer: JSON, pairing: Pairing?, of customer: Customer, _ generation: Int, _ number: Int? = nil
  ) async throws -> Access {
    if number == nil { changedNumber = requestNumber }
    guard let token = answer["entitlements"]?.text(of: "entitlementToken") else {
      throw ReceiptdError.unverified("the response has no token")
    }
    let claims = try await verify(token, of: customer)
    guard generation == self.generation else { throw ReceiptdError.customerChanged }
    return try take(token, claims, answer, pairing: pairing, of: customer, number)
  }

  @inline(never) private func take(
    _ token: String, _ claims: Claims, _ answer: JSON, pairing: Pairing?, of customer: Customer,
    _ number: Int?
  ) throws -> Access {
    let before = board.held
    if let before {
      if claims.iat < before.claims.iat {
        throw ReceiptdError.unverified("the token is older than the held one")
      }
      if claims.iat == before.claims.iat, let number, number < heldNumber { return board.current }
    }
    let features: AnyFeatures
    do {
      features = try self.features(claims.payload)
    } catch {
      throw ReceiptdError.featuresUnreadable("\(error)")
    }
    let everHadAccess =
      answer["entitlements"]?.flag(of: "everHadAccess") ?? before?.everHadAccess ?? claims.isAccessGranted
    let held = Held(
      token: token, claims: claims, features: features, pairing: pairing, everHadAccess: everHadAccess)
    // A response of the same second is perhaps a replay, and tells no time.
    if claims.iat > before?.claims.iat ?? 0 { board.hear(claims.iat) }
    heldNumber = number ?? requestNumber + 1
    save(held.json, StoreKeys.entitlement(of: customer), in: configuration.store)
    board.show(held, isFresh: true)
    saveTime()
    return board.access(remark: answer.text(of: "code"))
  }

  @inline(never) private func verify(_ token: String, of customer: Customer) async throws -> Claims {
    // A withdrawn key is noticed within a day, also where an attacker signs with it.
    if board.now.timeIntervalSince1970 - keySet.fetchedAt > 86_400 { try? await fetchKeys() }
    if let claims = try claims(of: token, customer) { return claims }
    try await fetchKeys()
    guard let claims = try claims(of: token, customer) else {
      throw ReceiptdError.unverified("the server's key set does not have the token's key")
    }
    return claims
  }

  /// The claims of a genuine token; `nil` if its key may be a new one that has to be fetched.
  @inline(never) private func claims(of token: String, _ customer: Customer) throws -> Claims? {
    do {
      return try keySet.verify(token, app: configuration.bundleID, customer: customer.id)
    } catch .unknownKey {
      if uptime - keysAskedAt >= 60 { return nil }
      throw ReceiptdError.unverified("the token's key is unknown")
    } catch {
      throw ReceiptdError.unverified("the token is not genuine, or not this customer's of this app")
    }
  }

  @inline(never) private func fetchKeys() async throws { try take(try await api.send(API.keySet)) }

  @inline(never) private func take(_ response: JSON) throws {
    keysAskedAt = uptime
    guard let new = KeySet(response, at: board.now) else {
      throw ReceiptdError.unexpected(status: 200, "the key set cannot be read")
    }
    keySet = new
    save(new.json, StoreKeys.keySet, in: configuration.store)
    // What a withdrawn key signed is no longer believed.
    guard let customer, let held = board.held else { return }
    if (try? new.verify(held.token, app: configuration.bundleID, customer: customer.id)) == nil {
      try? configuration.store.remove(StoreKeys.entitlement(of: customer))
      board.show(nil)
    }
  }

  @inline(never) private func kept(of customer: Customer) -> Held? {
    guard let kept = decoded(StoreKeys.entitlement(of: customer), in: configuration.store),
      let token = kept.text(of: "token"),
      let claims = try? keySet.verify(token, app: configuration.bundleID, customer: customer.id),
      let features = try? self.features(claims.payload)
    else { return nil }
    return Held(
      token: token, claims: claims, features: features, pairing: Pairing(kept["pairing"]),
      everHadAccess: kept.flag(of: "everHadAccess") ?? claims.isAccessGranted)
  }

  // MARK: Stores

  /// Reads what was kept, once. Where the keychain is still locked it is read again with the next call.
  @inline(never) func load() {
    if isLoaded { return }
    do {
      let keySet = try configuration.store.read(StoreKeys.keySet).flatMap(JSON.init)
      let time = try configuration.store.read(StoreKeys.clock).flatMap(JSON.init)
      let proofs = try configuration.queues.read(StoreKeys.proofs).flatMap(JSON.init)
      let events = try configuration.queues.read(StoreKeys.events).flatMap(JSON.init)
      isLoaded = true
      if let kept = keySet.flatMap(KeySet.init) { self.keySet = kept }
      if let time {
        // From now on the monotonic clock counts, also after a restart without the server.
        var time = TimeKeeper(time)
        time.note(configuration.clock)
        board.state.with { [time] in $0.time = time }
      }
      // What was queued before the store could be read comes after what was kept.
      self.proofs.insert(contentsOf: proofs?.list.compactMap(QueuedProof.init) ?? [], at: 0)
      let new = self.events.events
      if let events { self.events = EventQueue(events) } else { self.events = EventQueue() }
      for event in new { self.events.append(event) }
      if !self.events.events.isEmpty { eventsSince = uptime - configuration.eventDelay }
      // The customer may have signed in while the keychain was locked.
      if let customer, board.held == nil {
        let held = kept(of: customer)
        board.state.with { $0.held = held }
        board.publish()
      }
    } catch {
      // Left for the next call.
    }
  }

  @inline(never) func saveTime() {
    save(board.state.with { $0.time.json }, StoreKeys.clock, in: configuration.store)
  }

  @inline(never) func saveProofs() {
    if isLoaded { save(.list(proofs.map(\.json)), StoreKeys.proofs, in: configuration.queues) }
  }

  @inline(never) func saveEvents() {
    if isLoaded { save(events.json, StoreKeys.events, in: configuration.queues) }
  }

  /// A value that cannot be written stays in memory: the next change writes it.
  @inline(never) private func save(_ value: JSON, _ key: String, in store: any EntitlementStore) {
    try? store.write(value.data, for: key)
  }

  @inline(never) private func decoded(_ key: String, in store: any EntitlementStore) -> JSON? {
    (try? store.read(key)).flatMap(JSON.init)
  }
}
