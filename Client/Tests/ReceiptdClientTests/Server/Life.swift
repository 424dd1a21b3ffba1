import Foundation

@testable import ReceiptdClient

/// Random numbers of a seed (SplitMix64).
struct Seeded: RandomNumberGenerator, Sendable {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1 }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// What the network delivered to a phone: the model that the app is compared with. It reads tokens on the wire and knows nothing
/// of the client's code.
final class Wire: Transport {
  struct Said: Decodable, Sendable {
    var sub: String
    var tier: String?
    var status: String
    var isAccessGranted: Bool
    var iat: TimeInterval
    var exp: TimeInterval
  }

  let network: Network
  private let delivered = Protected<[String: Said]>([:])
  /// The ids of the delivered keys, and the answer whose key was not yet delivered: the client can verify it once it is.
  private let keys = Protected<(known: Set<String>, unverified: (kid: String, said: Said)?)>(([], nil))

  init(_ network: Network) { self.network = network }

  func said(of customer: String) -> Said? { delivered.with { $0[customer] } }
  func forget(_ customer: String) { delivered.with { $0[customer] = nil } }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    let response = try await network.send(request)
    if let body = try? JSONSerialization.jsonObject(with: response.body) as? [String: Any],
      let entitlements = body["entitlements"] as? [String: Any],
      let token = entitlements["entitlementToken"] as? String,
      let header = Base64URL.data(String(token.split(separator: ".")[0])),
      let kid = (try? JSONDecoder().decode([String: String].self, from: header))?["kid"],
      let payload = Base64URL.data(String(token.split(separator: ".")[1])),
      let said = try? JSONDecoder().decode(Said.self, from: payload)
    {
      let isKnown = keys.with { keys in
        keys.unverified = keys.known.contains(kid) ? nil : (kid, said)
        return keys.unverified == nil
      }
      if isKnown { deliver(said) }
    } else if request.url.path.hasSuffix("jwks.json"), response.status == 200 {
      struct KeyIDs: Decodable {
        struct Key: Decodable { var kid: String }
        var keys: [Key]
      }
      let ids = (try? JSONDecoder().decode(KeyIDs.self, from: response.body))?.keys.map(\.kid) ?? []
      let said = keys.with { keys in
        keys.known = Set(ids)
        defer { keys.unverified = nil }
        return keys.unverified.flatMap { ids.contains($0.kid) ? $0.said : nil }
      }
      if let said { deliver(said) }
    }
    return response
  }

  private func deliver(_ said: Said) {
    delivered.with { if said.iat >= $0[said.sub]?.iat ?? 0 { $0[said.sub] = said } }
  }
}

/// The random life of one phone and its customers, with a history for a failure's report.
final class Life: @unchecked Sendable {
  // One task at a time lives a life, so nothing needs a lock.
  struct Broken: Error, CustomStringConvertible {
    let description: String
  }

  typealias Client = Receiptd<[String: FeatureWord]>

  /// Any value of a feature.
  enum FeatureWord: Codable, Sendable, Hashable {
    case word(String)
    case none

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        self = .none
      } else if let flag = try? container.decode(Bool.self) {
        self = .word("\(flag)")
      } else if let number = try? container.decode(Double.self) {
        self = .word("\(number)")
      } else {
        self = .word(try container.decode(String.self))
      }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      switch self {
      case .word(let text): try container.encode(text)
      case .none: try container.encodeNil()
      }
    }
  }

  let seed: UInt64
  private let stage: Stage
  private let isUser: Bool
  private let phone: Phone
  private let wire: Wire
  private var random: Seeded
  private(set) var history: [String] = []
  private let customers: [Customer]
  private var current = 0
  private var client: Client
  private var purchases: [Customer: [Stage.Purchase]] = [:]
  private var tracked: [Customer: [Date]] = [:]
  /// When the phone had a good network.
  private var online: [Date] = []
  /// Whether the server answered since the device's last restart.
  private var isAnchored = false
  private let child: (phone: Phone, wire: Wire, customer: Customer)?
  private var childClient: Client?
  private var hasJoined = false

  init(_ seed: UInt64, run: String, _ stage: Stage) {
    self.seed = seed
    self.stage = stage
    random = Seeded(seed)
    isUser = seed % 2 == 0
    phone = Phone(stage, isUser ? Stage.climbing : Stage.screenTime)
    wire = Wire(phone.network)
    customers = isUser ? [.user(UUID()), .user(UUID())] : [.device("life-\(run)-\(seed)")]
    if isUser {
      child = nil
    } else {
      let childPhone = Phone(stage, Stage.screenTime)
      child = (childPhone, Wire(childPhone.network), .device("child-\(run)-\(seed)"))
    }
    client = Self.launch(phone, wire)
    childClient = child.map { Self.launch($0.phone, $0.wire) }
  }

  private static func launch(_ phone: Phone, _ wire: Wire) -> Client {
    var configuration = ReceiptdConfiguration(server: phone.stage.address, bundleID: phone.bundle)
    configuration.transport = wire
    configuration.store = phone.store
    configuration.queues = phone.queues
    configuration.clock = phone.clock
    let users = phone.users
    return Receiptd(configuration, free: [:], token: { _ in users.with { $0 }.map { Stage.accessToken($0) } })
  }

  private var customer: Customer { customers[current] }

  private func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  private func note(_ text: String) { history.append("\(stage.now.formatted(.iso8601)) \(text)") }

  private func enter() async {
    if case .user(let id) = customer { phone.users.with { $0 = id } }
    await client.enter(customer)
  }

  /// The first launch.
  func begin() async throws {
    await enter()
    if let child { await childClient?.enter(child.customer) }
    if !isUser, chance(70) {
      let app = try await stage.appTransaction(of: Stage.screenTime, account: customer.id)
      note("starts a trial")
      _ = try await client.startTrial(appTransaction: app)
    }
    try await check(isOnline: false)
  }

  // MARK: One step

  func step() async throws {
    // The network of this step.
    var isOnline = true
    switch Int.random(in: 0..<10, using: &random) {
    case 0, 1:
      isOnline = false
      phone.network.fault.with { $0 = .offline }
      note("is offline")
    case 2, 3:
      isOnline = false
      let faults = Protected(Seeded(random.next()))
      phone.network.chance.with {
        $0 = {
          faults.with { [.none, .lostRequest, .lostResponse, .proxyPage].randomElement(using: &$0) ?? .none }
        }
      }
      note("has a bad network")
    default: break
    }
    for _ in 0..<Int.random(in: 1...2, using: &random) { try await act() }
    _ = await client.step()
    if isOnline { online.append(stage.now) }
    try await check(isOnline: false)
    phone.network.fault.with { $0 = .none }
    phone.network.chance.with { $0 = nil }
    if isOnline {
      do {
        try await client.refresh()
      } catch let error as ReceiptdError where error.retryAfter != nil {
        note("has to wait: \(error)")
        return
      }
      isAnchored = true
      try await check(isOnline: true)
    }
  }

  private func act() async throws {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<20: try await buy()
    case 20..<35: try await change("renew")
    case 35..<42: try await change("refund")
    case 42..<49: try await change("fail-renewal")
    case 49..<54: try await change("expire")
    case 54..<60:
      let to = isUser ? "com.swiftclimb.premium.annual" : "com.screentimerewards.family.monthly"
      try await change("change-product", ["productID": to])
    case 60..<68:
      note("is killed and launched again")
      client = Self.launch(phone, wire)
      await enter()
    case 68..<74:
      note("restarts the device")
      phone.clock.setWall(offBy: 0)
      phone.clock.reboot()
      client = Self.launch(phone, wire)
      await enter()
      isAnchored = false
    case 74..<80:
      // The trusted clock promises that a jump changes nothing while the server's time runs.
      guard isAnchored else { return }
      let jump = Double(Int.random(in: -400...400, using: &random))
      note("sets the clock off by \(jump) days")
      phone.clock.setWall(offBy: jump * 86_400)
    case 80..<88:
      note("tracks an event")
      await client.track("paywall_shown", ["seed": .number(Double(seed))])
      tracked[customer, default: []].append(stage.now)
    case 88..<94: try await switchUser()
    default: try await join()
    }
  }

  private func buy() async throws {
    let products =
      isUser
      ? ["com.swiftclimb.premium.monthly", "com.swiftclimb.premium.annual"]
      : ["com.screentimerewards.individual.monthly", "com.screentimerewards.family.monthly"]
    for purchase in purchases[customer] ?? [] where try await stage.truth(purchase).grantsAccess { return }
    guard let product = products.randomElement(using: &random) else { return }
    var user: UUID?
    if case .user(let id) = customer { user = id }
    let bought = try await stage.buy(
      product, of: phone.bundle, user: user, account: isUser ? nil : customer.id, delivers: chance(60))
    purchases[customer, default: []].append(bought)
    note("buys \(product) as \(bought.originalTransactionID)")
    do {
      try await client.submit(.signedTransaction(bought.signedTransaction))
    } catch let error as ReceiptdError {
      note("the purchase waits: \(error)")
      guard error.advice == .retry else {
        throw Broken(description: "a genuine purchase was refused: \(error)")
      }
      if chance(50) {
        note("is killed during the purchase")
        client = Self.launch(phone, wire)
        await enter()
      }
    }
  }

  /// Something happens to the latest subscription in the store; not each transition is possible at each time.
  private func change(_ command: String, _ body: [String: Any] = [:]) async throws {
    guard let purchase = purchases[customer]?.last else { return }
    do {
      try await stage.command(command, purchase, body)
      note("\(command) \(purchase.originalTransactionID)")
    } catch is Stage.Failure {}
  }

  private func switchUser() async throws {
    guard isUser else { return }
    if chance(50) {
      note("signs out")
      await client.signOut()
      wire.forget(customer.id)
    }
    current = 1 - current
    note("user \(current) signs in")
    await enter()
  }

  private func join() async throws {
    guard let child, let childClient, !hasJoined else { return }
    do {
      let code = try await client.pairingCode()
      let pairing = try await childClient.join(code: code.code, name: "child")
      hasJoined = true
      note("pairs a child: \(pairing.state)")
      _ = child
    } catch let error as ReceiptdError {
      note("pairs no child: \(error.code.rawValue)")
    }
  }

  // MARK: Checks

  private func check(isOnline: Bool) async throws {
    try compare(client, wire, customer)
    guard isOnline else { return }
    let shown = client.current
    guard shown.source == .server else { throw broken("the source is \(shown.source) after an answer") }
    var grants = false
    let waiting = await client.proofs.filter { $0.customer == customer }
    for purchase in purchases[customer] ?? [] {
      let isKnown = !waiting.contains { $0.body.contains(purchase.signedTransaction) }
      if isKnown, try await stage.truth(purchase).grantsAccess { grants = true }
    }
    // A purchase that only waits in the queue may have reached the server by the App Store's notification.
    if grants, !shown.isAccessGranted { throw broken("the store grants access, and the app shows \(shown)") }
    if !grants, waiting.isEmpty, shown.status == .active {
      throw broken("the store grants nothing, and the app shows \(shown)")
    }
    if let child, let childClient, hasJoined {
      try await childClient.refresh()
      try compare(childClient, child.wire, child.customer)
      let parents = try await client.refresh()
      let childs = childClient.current
      guard let pairing = childs.pairing else { throw broken("the child has no pairing") }
      if childs.isAccessGranted != (pairing.isActive && parents.isAccessGranted) {
        throw broken("the parent has \(parents), and the child has \(childs)")
      }
    }
  }

  /// What the app shows is what the network delivered last, until its end; then nothing.
  private func compare(_ client: Client, _ wire: Wire, _ customer: Customer) throws {
    let shown = client.current
    let now = stage.now.timeIntervalSince1970
    guard let said = wire.said(of: customer.id), now < said.exp + 1 else {
      if shown.source == .none || abs((wire.said(of: customer.id)?.exp ?? 0) - now) < 2 { return }
      throw broken("nothing valid was delivered, and the app shows \(shown)")
    }
    if now > said.exp - 1 { return }
    guard shown.source != .none, shown.isAccessGranted == said.isAccessGranted,
      shown.status.rawValue == said.status,
      shown.tier == said.tier
    else { throw broken("the network delivered \(said), and the app shows \(shown)") }
  }

  private func broken(_ text: String) -> Broken { Broken(description: text) }

  // MARK: The end

  /// The network is back: all that was queued is sent. The caller moves the clock between the rounds.
  func settle() async throws {
    for index in customers.indices {
      current = index
      await enter()
      _ = await client.step()
      online.append(stage.now)
    }
  }

  func end() async throws {
    for index in customers.indices {
      current = index
      await enter()
      try await client.refresh()
      try await check(isOnline: true)
    }
    let (proofs, events) = (await client.proofs.count, await client.events.events.count)
    if proofs + events > 0 { throw broken("\(proofs) purchases and \(events) events are left in the queues") }
    for customer in customers {
      let owner = isUser ? "user_id = '\(customer.id)'" : "device_id = '\(customer.id)'"
      for purchase in purchases[customer] ?? [] {
        let id = purchase.originalTransactionID
        let rows = try stage.query(
          "SELECT count(*) FROM subscriptions WHERE original_transaction_id = '\(id)' AND \(owner)")
        if rows != "1" { throw broken("purchase \(id) of \(customer.id) has \(rows) rows") }
      }
      let counted = try stage.query(
        "SELECT count(*) FROM receiptd.events WHERE customer_id = '\(customer.id)'")
      // The server takes no event of more than 30 days ago, so one that had no network for so long may be missing. A step sends
      // the events of one customer.
      let all = tracked[customer] ?? []
      let certain = all.filter { at in
        online.count { $0 > at.addingTimeInterval(11) && $0 < at.addingTimeInterval(29 * 86_400) } > 2
      }
      guard let number = Int(counted), (certain.count...all.count).contains(number) else {
        throw broken("\(all.count) events were tracked, \(certain.count) in time, and \(counted) counted")
      }
    }
  }
}
