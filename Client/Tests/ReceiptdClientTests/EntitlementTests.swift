import Foundation
import Testing

@testable import ReceiptdClient

/// Offline use: what a client believes, and for how long.
@Suite struct EntitlementTests {
  private let phone = Customer.device("phone 1/2")

  @Test func `nothing is known before the first answer, and the free features are shown`() async throws {
    let device = Device()
    let client = device.launch()
    #expect(client.current.features == .free)
    #expect(client.current.source == .none)
    await client.enter(phone)
    #expect(client.current.source == .none)
    #expect(!client.current.isAccessGranted)
    let error = try await failure { try await device.launch().refresh() }
    #expect(error.code == .notSignedIn)
    #expect(error.advice == .signIn)
  }

  @Test func `an answer opens what its token says, and not what the unsigned members say`() async throws {
    let device = Device()
    let client = device.launch()
    await client.enter(phone)
    let free = try await client.refresh()
    #expect(free.features == .free)
    #expect(free.tier == nil)
    #expect(!free.isAccessGranted)
    #expect(free.source == .server)
    device.server.grant(phone, until: device.server.now + 30 * 86_400)
    let paid = try await client.refresh()
    #expect(paid.features == .premium)
    #expect(paid.tier == "premium")
    #expect(paid.status == .active)
    #expect(paid.everHadAccess)
    #expect(paid.validUntil == device.server.now + 30 * 86_400)
    #expect(paid.offlineGraceUntil == device.server.now + ScriptedServer.grace)
    #expect(paid.verifiedAt == device.server.now)
    // The device id stands in the path as one part.
    #expect(
      device.server.requests[0].url.absoluteString.contains("/devices/phone%201%2F2/entitlements?bundleID="))
    #expect(device.server.requests[0].headers["Receiptd-Device-Secret"]?.count == 43)
  }

  @Test func `a kept entitlement opens the app offline until its end, in both modes`() async throws {
    let device = Device()
    let end = device.server.now + 40 * 86_400
    for (customer, offline) in [(phone, ScriptedServer.grace), (.device("paid time"), 40 * 86_400)] {
      device.server.isDown(false)
      device.server.grant(customer, until: end, exp: device.server.now + offline)
      let client = device.launch()
      await client.enter(customer)
      try await client.refresh()
      device.server.isDown(true)
      let later = device.launch()
      await later.enter(customer)
      #expect(later.current.features == .premium)
      #expect(later.current.source == .cache)
      let error = try await failure { try await later.refresh() }
      #expect(error.code == .offline)
      #expect(error.advice == .retry)
      device.server.pass(offline - 1)
      #expect(later.current.isAccessGranted)
      device.server.pass(1)
      #expect(!later.current.isAccessGranted)
      #expect(later.current.features == .free)
      #expect(later.current.source == .none)
    }
  }

  @Test func `a token of another customer, app, issuer, key or algorithm is not believed`() async throws {
    let device = Device()
    let server = device.server
    var access = ScriptedServer.Access()
    access.isGranted = true
    access.features = .premium
    let genuine = server.token(phone.id, access: access)
    let parts = genuine.split(separator: ".")
    let forged = [
      server.token("another", access: access),
      server.token(phone.id, access: access) { $0["aud"] = "com.example.other" },
      server.token(phone.id, access: access) { $0["iss"] = "other" },
      "\(parts[0]).\(parts[1]).\(Base64URL.string(Data(repeating: 1, count: 64)))",
      "\(parts[0]).\(Base64URL.string(Data("{}".utf8))).\(parts[2])",
      "\(Base64URL.string(Data(#"{"alg":"none","kid":"key-0"}"#.utf8))).\(parts[1]).",
      "\(Base64URL.string(Data(#"{"alg":"EdDSA","kid":"key-9"}"#.utf8))).\(parts[1]).\(parts[2])",
      "\(parts[0]).\(parts[1])", "", "a.b.c.d",
    ]
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    for token in forged {
      let body = #"{"entitlements":{"entitlementToken":"\#(token)","isAccessGranted":true}}"#
      server.next("entitlements", .response(TransportResponse(status: 200, body: Data(body.utf8))))
      let error = try await failure { try await client.refresh() }
      #expect(error.code == .unverified, "\(token)")
      #expect(!client.current.isAccessGranted)
      server.pass(61)
    }
    let body = #"{"entitlements":{"entitlementToken":"\#(genuine)"}}"#
    try await client.refresh()
    // Genuine, but older than the held one: a replay.
    server.next("entitlements", .response(TransportResponse(status: 200, body: Data(body.utf8))))
    let replay = try await failure { try await client.refresh() }
    #expect(replay.code == .unverified)
  }

  @Test func `a response without a token leaves the kept entitlement as it is`() async throws {
    let device = Device()
    device.server.grant(phone)
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    device.server.hasToken(false)
    let error = try await failure { try await client.refresh() }
    #expect(error.code == .unverified)
    #expect(error.advice == .retry)
    #expect(client.current.features == .premium)
  }

  @Test func `features that the app's type cannot read open nothing and are an error of the build`()
    async throws
  {
    let device = Device()
    let client = device.launch()
    await client.enter(phone)
    var access = ScriptedServer.Access()
    access.isGranted = true
    let token = device.server.token(phone.id, access: access) { $0["features"] = ["insights": true] }
    let body = #"{"entitlements":{"entitlementToken":"\#(token)"}}"#
    device.server.next("entitlements", .response(TransportResponse(status: 200, body: Data(body.utf8))))
    let error = try await failure { try await client.refresh() }
    #expect(error.code == .featuresUnreadable)
    #expect(error.advice == .giveUp)
    #expect(error.detail?.contains("history") == true)
    #expect(client.current.features == .free)
  }

  @Test func `a new key is fetched once, and a withdrawn key ends what it signed`() async throws {
    let device = Device()
    let server = device.server
    server.grant(phone)
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    #expect(server.requests("jwks.json") == 1)
    server.pass(120)
    server.rotate(isLeaked: false)
    try await client.refresh()
    try await client.refresh()
    #expect(server.requests("jwks.json") == 2)
    #expect(client.current.source == .server)
    // The old key is still published, so what it signed is valid; the leaked one is not.
    server.pass(120)
    let stolen = server.token(
      phone.id, access: .init(tier: "premium", status: "active", isGranted: true), signedBy: 1)
    server.rotate(isLeaked: true)
    server.set(phone, .init())
    try await client.refresh()
    #expect(!client.current.isAccessGranted)
    server.pass(120)
    let body = #"{"entitlements":{"entitlementToken":"\#(stolen)"}}"#
    server.next("entitlements", .response(TransportResponse(status: 200, body: Data(body.utf8))))
    let error = try await failure { try await client.refresh() }
    #expect(error.code == .unverified)
    #expect(!client.current.isAccessGranted)
  }

  @Test
  func `a device that an attacker feeds with a leaked key's tokens learns of the withdrawal within a day`()
    async throws
  {
    let device = Device()
    let server = device.server
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    server.rotate(isLeaked: true)
    server.pass(86_401)
    let stolen = server.token(
      phone.id, access: .init(tier: "premium", status: "active", isGranted: true, features: .premium),
      signedBy: 0)
    let body = #"{"entitlements":{"entitlementToken":"\#(stolen)"}}"#
    server.next("entitlements", .response(TransportResponse(status: 200, body: Data(body.utf8))))
    _ = try await failure { try await client.refresh() }
    #expect(!client.current.isAccessGranted)
  }

  @Test func `keys of a broken token are asked for at most once a minute`() async throws {
    let device = Device()
    let client = device.launch()
    await client.enter(phone)
    try await client.refresh()
    device.server.pass(60)
    let token = device.server.token(phone.id, access: .init()).replacingOccurrences(
      of: Base64URL.string(Data(#"{"alg":"EdDSA","kid":"key-0","typ":"JWT"}"#.utf8)),
      with: Base64URL.string(Data(#"{"alg":"EdDSA","kid":"key-7","typ":"JWT"}"#.utf8)))
    let body = Data(#"{"entitlements":{"entitlementToken":"\#(token)"}}"#.utf8)
    for _ in 0..<5 {
      device.server.next("entitlements", .response(TransportResponse(status: 200, body: body)))
      _ = try await failure { try await client.refresh() }
    }
    #expect(device.server.requests("jwks.json") == 2)
  }

  @Test func `two users of one phone never see each other's access, also offline`() async throws {
    let device = Device()
    let (ada, ben) = (Customer.user(UUID()), Customer.user(UUID()))
    device.server.grant(ada)
    device.tokens.with { $0 = ["\(ada.id)|1"] }
    let client = device.launch()
    await client.enter(ada)
    try await client.refresh()
    #expect(client.current.isAccessGranted)
    device.server.isDown(true)
    await client.enter(ben)
    #expect(!client.current.isAccessGranted)
    #expect(client.current.source == .none)
    await client.enter(ada)
    #expect(client.current.isAccessGranted)
    await client.signOut()
    #expect(client.current.source == .none)
    await client.enter(ada)
    // Signing out forgets what was kept.
    #expect(client.current.source == .none)
  }

  @Test func `a response that arrives after the customer changed is dropped`() async throws {
    let device = Device()
    let (ada, ben) = (Customer.device("ada"), Customer.device("ben"))
    device.server.grant(ada)
    let client = device.launch()
    await client.enter(ada)
    let (gate, opener) = AsyncStream<Void>.makeStream()
    device.server.hold(until: gate)
    let late = Task { try await client.refresh() }
    while device.server.requests.isEmpty { await Task.yield() }
    await client.enter(ben)
    device.server.hold(until: nil)
    opener.finish()
    let error = try await failure { try await late.value }
    #expect(error.code == .customerChanged)
    #expect(client.current.source == .none)
    await client.enter(ada)
    #expect(client.current.source == .none)
  }

  @Test func `a token of another user is not sent, and hides what is kept`() async throws {
    let device = Device()
    let (ada, ben) = (UUID(), UUID())
    func jwt(_ user: UUID) -> String {
      "e30.\(Base64URL.string(Data(#"{"sub":"\#(user.uuidString.lowercased())"}"#.utf8))).c2ln"
    }
    let client = device.launch()
    await client.enter(.user(ada))
    device.tokens.with { $0 = [jwt(ben)] }
    let error = try await failure { try await client.submit(.signedTransaction("jws")) }
    #expect(error.code == .forbidden)
    #expect(error.advice == .signIn)
    #expect(device.server.requests.isEmpty)
    device.tokens.with { $0 = [jwt(ada)] }
    try await client.submit(.signedTransaction("jws"))
    #expect(device.server.purchases.count == 1)
  }

  @Test func `StoreKit's verdict stands in only while the server is away and no token is valid`() async throws
  {
    let device = Device()
    let verdict = DeviceVerdict(features: Features.premium, tier: "premium")
    let client = device.launch(verdict: { _ in verdict })
    await client.enter(phone)
    #expect(client.current.source == .none)
    device.server.isDown(true)
    _ = try await failure { try await client.refresh() }
    #expect(client.current.source == .device)
    #expect(client.current.features == .premium)
    // A server that answers decides, also with a refusal.
    device.server.isDown(false)
    try await client.refresh()
    #expect(client.current.source == .server)
    #expect(!client.current.isAccessGranted)
    device.server.isDown(true)
    _ = try await failure { try await client.refresh() }
    #expect(client.current.source == .cache)
    #expect(!client.current.isAccessGranted)
    device.server.pass(ScriptedServer.grace)
    _ = try await failure { try await client.refresh() }
    #expect(client.current.source == .device)
    // A customer that the server does not know is free.
    let other = device.launch(verdict: { _ in verdict })
    await other.enter(.user(UUID()))
    _ = try await failure { try await other.refresh() }
    #expect(other.current.source == .none)
  }

  @Test func `updates begin with the present state and report each change`() async throws {
    let device = Device()
    let client = device.launch()
    var updates = client.updates.makeAsyncIterator()
    #expect(await updates.next()?.source == EntitlementSource.none)
    await client.enter(phone)
    device.server.grant(phone)
    try await client.refresh()
    #expect(await updates.next()?.features == .premium)
    try await client.refresh()
    device.server.set(phone, .init(status: "cancelled"))
    try await client.refresh()
    #expect(await updates.next()?.status == .cancelled)
    await client.signOut()
    #expect(await updates.next()?.source == EntitlementSource.none)
  }
}
