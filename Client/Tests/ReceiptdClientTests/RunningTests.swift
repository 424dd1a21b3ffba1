import Foundation
import Testing

@testable import ReceiptdClient

/// Events, devices, households, the loop, and the fake.
@Suite struct RunningTests {
  private let phone = Customer.device("phone")

  @Test func `events are sent in one request, kept on disk, and counted once`() async throws {
    let device = Device()
    let client = device.launch()
    await client.track("app_opened")
    await client.enter(phone)
    _ = try await client.refresh()
    for number in 0..<5 {
      await client.track("paywall_shown", ["placement": "settings", "number": .number(Double(number))])
    }
    _ = await client.step()
    #expect(device.server.events.isEmpty)
    // The app is ended before they were sent.
    let next = device.launch()
    await next.enter(phone)
    device.server.next("events", .lostResponse)
    _ = await next.step()
    #expect(device.server.requests("events") == 1)
    for _ in 0..<5 {
      device.server.pass(15)
      _ = await next.step()
    }
    // One customer before the sign-in, and one after it: a request each, and the repeated one.
    #expect(device.server.requests("events") == 3)
    #expect(device.server.events.count == 6)
    #expect(Set(device.server.events).count == 6)
    #expect(
      device.server.requests.allSatisfy {
        !$0.url.path.hasSuffix("events") || $0.headers["Authorization"] == nil
      })
  }

  @Test func `an event that the server would refuse is not queued, and a refused request is dropped`()
    async throws
  {
    let device = Device()
    let client = device.launch()
    await client.enter(phone)
    for name in ["", "1st", "a b", String(repeating: "a", count: 65), "ä"] { await client.track(name) }
    await client.track("big", ["text": .text(String(repeating: "x", count: 3000))])
    #expect(await client.events.events.isEmpty)
    await client.track("Fine_name-1.2")
    device.server.next("events", .response(ScriptedServer.problem(400, "invalid_request")))
    device.server.pass(10)
    _ = await client.step()
    #expect(await client.events.events.isEmpty)
    for number in 0..<1100 { await client.track("event", ["number": .number(Double(number))]) }
    #expect(await client.events.events.count == EventQueue.limit)
    #expect(await client.events.events.first?.properties.string == #"{"number":100}"#)
    // No request is larger than the server takes without a token.
    for _ in 0..<40 {
      device.server.pass(15)
      _ = await client.step()
    }
    #expect(await client.events.events.isEmpty)
    #expect(
      device.server.requests.filter { $0.url.path.hasSuffix("events") }.allSatisfy {
        ($0.body?.count ?? 0) <= 8192
      })
    #expect(device.server.events.count == 1000)
  }

  @Test func `an event's time is never ahead of the server's, and old events are dropped`() async throws {
    let device = Device()
    device.clock.setWall(device.server.now + 10_000)
    let client = device.launch()
    await client.track("early")
    await client.enter(phone)
    _ = try await client.refresh()
    device.server.pass(10)
    _ = await client.step()
    let body = try #require(device.server.requests.last { $0.url.path.hasSuffix("events") }?.body)
    #expect(
      String(decoding: body, as: UTF8.self).contains("\"at\":\"\(device.server.now.formatted(.iso8601))\""))
    await client.track("old")
    device.server.isDown(true)
    device.server.pass(30 * 86_400)
    _ = await client.step()
    #expect(await client.events.events.isEmpty)
  }

  @Test func `the loop refreshes when the entitlement changes, at the interval, and after an outage`()
    async throws
  {
    let device = Device()
    let server = device.server
    server.grant(phone, until: server.now + 1800)
    let client = device.launch()
    await client.enter(phone)
    var wait = await client.step()
    #expect(server.requests("entitlements") == 1)
    // A second after the change, and half of the spread of ten seconds.
    #expect(wait == 1806)
    server.grant(phone, until: server.now + 30 * 86_400)
    server.pass(wait)
    wait = await client.step()
    #expect(server.requests("entitlements") == 2)
    #expect(client.current.validUntil == server.now - 1806 + 30 * 86_400)
    #expect(wait == 3600)
    server.pass(6 * 3600)
    server.isDown(true)
    wait = await client.step()
    #expect(server.requests("entitlements") == 3)
    #expect(wait == 15)
    for most in [30.0, 60, 120, 240, 480] {
      server.pass(wait)
      wait = await client.step()
      #expect(wait == most)
    }
    server.isDown(false)
    server.pass(wait)
    _ = await client.step()
    #expect(client.current.source == .server)
    // Without an end the entitlement is read at the interval.
    server.grant(phone)
    try await client.refresh()
    let count = server.requests("entitlements")
    server.pass(6 * 3600 - 1)
    _ = await client.step()
    #expect(server.requests("entitlements") == count)
    server.pass(1)
    _ = await client.step()
    #expect(server.requests("entitlements") == count + 1)
  }

  @Test func `what waits for the server is sent soon after any of its answers`() async throws {
    let device = Device()
    let client = device.launch()
    await client.enter(phone)
    device.server.isDown(true)
    _ = try await failure { try await client.submit(.signedTransaction("jws")) }
    for _ in 0..<30 {
      device.server.pass(3600)
      _ = await client.step()
    }
    device.server.isDown(false)
    _ = try await client.refresh()
    device.server.pass(5)
    _ = await client.step()
    #expect(device.server.purchases.count == 1)
  }

  @Test func `run wakes for a customer, a purchase and an event, and ends with its task`() async throws {
    let device = Device()
    let client = device.launch()
    let running = Task { await client.run() }
    while device.clock.sleepers == 0 { await Task.yield() }
    await client.signIn(phone)
    while device.server.requests("entitlements") == 0 || device.clock.sleepers == 0 { await Task.yield() }
    await client.track("paywall_shown")
    device.server.pass(11)
    while device.server.events.isEmpty { await Task.yield() }
    running.cancel()
    await running.value
    #expect(await client.isRunning == false)
  }

  @Test func `calls at the same time share one refresh`() async throws {
    let device = Device()
    let client = device.launch()
    await client.enter(phone)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<10 { group.addTask { try await client.refresh() } }
      try await group.waitForAll()
    }
    #expect(device.server.mostRunning("entitlements") == 1)
  }

  @Test func `a device that lost its secret proves itself with its last purchase or app transaction`()
    async throws
  {
    for isPurchase in [true, false] {
      let device = Device()
      let client = device.launch()
      await client.enter(phone)
      if isPurchase {
        try await client.submit(.signedTransaction("jws"))
      } else {
        try await client.startTrial(appTransaction: "app")
      }
      let secret = device.server.secret(of: "phone")
      #expect(secret?.count == 43)
      #expect(secret == (try? device.launch().configuration.deviceSecret()))
      device.store.remove(StoreKeys.deviceSecret)
      try await client.refresh()
      #expect(device.server.secret(of: "phone") != secret)
      // Without a proof the app has to restore purchases.
      device.store.remove(StoreKeys.deviceSecret)
      device.queues.remove(StoreKeys.deviceProof)
      let error = try await failure { try await client.refresh() }
      #expect(error.advice == .restore)
      #expect(error.code == .unauthenticated)
      try await client.sync(["jws"], appTransaction: nil)
      try await client.refresh()
    }
  }

  @Test func `the device id and its secret are made once`() throws {
    let device = Device()
    let configuration = device.launch().configuration
    let id = try configuration.deviceID()
    #expect(UUID(uuidString: id) != nil)
    #expect(try device.launch().configuration.deviceID() == id)
    #expect(try configuration.deviceSecret() == device.launch().configuration.deviceSecret())
  }

  @Test func `a household, a trial and the consent are calls of the device`() async throws {
    let device = Device()
    let client = device.launch()
    let signedOut = try await failure { try await client.pairingCode() }
    #expect(signedOut.code == .notSignedIn)
    await client.enter(.user(UUID()))
    let user = try await failure { try await client.children() }
    #expect(user.advice == .giveUp)
    await client.enter(phone)
    #expect(try await client.pairingCode().code == "7KQ4-M2XD")
    #expect(try await client.join(code: "7KQ4-M2XD", name: "Emma's iPad").isActive)
    #expect(client.current.pairing == Pairing())
    let children = try await client.children()
    #expect(children.map(\.childDeviceID) == ["C 1"])
    #expect(try await client.unpair(child: "C 1").isEmpty)
    #expect(device.server.requests.last?.url.absoluteString.contains("/children/C%201?") == true)
    #expect(try await client.startTrial(appTransaction: "app").endsAt != nil)
    try await client.consent(true)
    for (status, code) in [
      (404, "pairing_code_invalid"), (410, "pairing_code_expired"), (409, "device_limit_reached"),
    ] {
      device.server.next("parent", .response(ScriptedServer.problem(status, code)))
      let error = try await failure { try await client.join(code: "X", name: nil) }
      #expect(error.code.rawValue == code)
      #expect(error.advice == .giveUp)
    }
    // The code goes with the app transaction that the app gave last.
    for given in ["app", "newer"] {
      _ = try await client.join(code: "7KQ4-M2XD", appTransaction: given == "app" ? nil : given)
      let sent = device.server.requests.last { $0.url.path.hasSuffix("/parent") && $0.method == "PUT" }
      let body = try #require(sent?.body.map { String(decoding: $0, as: UTF8.self) })
      #expect(body.contains(#""signedAppTransaction":"\#(given)""#))
    }
    device.server.next(
      "trials",
      .response(ScriptedServer.problem(409, "device_limit_reached", headers: ["Retry-After": "86400"])))
    let trial = try await failure { try await client.startTrial(appTransaction: "app") }
    #expect(trial.advice == .retry)
    #expect(trial.retryAfter == 86_400)
  }

  @Test func `a fake shows what a preview or a test gives it`() async throws {
    let fake = Receiptd.fake(
      Entitlement(
        features: Features.premium, tier: "premium", status: .active, isAccessGranted: true, source: .server),
      free: .free)
    #expect(fake.current.features == .premium)
    #expect(fake.current.source == .server)
    #expect(try await fake.submit(.signedTransaction("jws")).isAccessGranted)
    await fake.pretend(Entitlement(features: .free, status: .cancelled, everHadAccess: true, source: .server))
    #expect(fake.current.status == .cancelled)
    #expect(PaywallReason(fake.current) == .refunded)
    #expect(Receiptd.fake(Entitlement(features: Features.free)).current.source == .none)
    _ = try await fake.pairingCode()
  }
}
