import Foundation
import Testing

@testable import ReceiptdClient

/// Purchases wait until the server has answered finally.
@Suite struct ProofTests {
  private let phone = Customer.device("phone")

  private func launch(_ device: Device) async -> Receiptd<Features> {
    let client = device.launch()
    await client.enter(phone)
    return client
  }

  @Test func `a purchase opens the app with the server's answer`() async throws {
    let device = Device()
    let client = await launch(device)
    let entitlement = try await client.submit(.signedTransaction("jws", signedRenewalInfo: "info"))
    #expect(entitlement.isAccessGranted)
    #expect(entitlement.source == .server)
    let request = try #require(device.server.requests.first)
    let body = try JSONSerialization.jsonObject(with: try #require(request.body)) as? [String: String]
    #expect(
      body == [
        "signedTransaction": "jws", "signedRenewalInfo": "info", "deviceID": "phone",
        "bundleID": ScriptedServer.bundleID,
      ])
    #expect(await client.proofs.isEmpty)
  }

  @Test(arguments: [
    ("a lost request", ScriptedServer.Fault.lostRequest), ("a lost response", .lostResponse),
    ("a response that was cut short", .cutResponse),
    ("a proxy's 502", .response(.init(status: 502, body: Data("<html>Bad gateway</html>".utf8)))),
    ("a proxy's 404", .response(.init(status: 404, body: Data("<html>Not found</html>".utf8)))),
    ("a proxy's 403 in JSON", .response(.init(status: 403, body: Data(#"{"message":"Forbidden"}"#.utf8)))),
    ("a captive portal's 200", .response(.init(status: 200, body: Data("<html>Welcome</html>".utf8)))),
    ("a redirect", .response(.init(status: 302, headers: ["Location": "http://portal"]))),
    ("a 204", .response(.init(status: 204))),
    ("internal", .response(ScriptedServer.problem(500, "internal"))),
    (
      "store_unavailable",
      .response(ScriptedServer.problem(503, "store_unavailable", headers: ["Retry-After": "5"]))
    ),
    (
      "database_unavailable",
      .response(ScriptedServer.problem(503, "database_unavailable", headers: ["Retry-After": "5"]))
    ),
    (
      "auth_unavailable",
      .response(ScriptedServer.problem(503, "auth_unavailable", headers: ["Retry-After": "5"]))
    ),
    ("overloaded", .response(ScriptedServer.problem(503, "overloaded", headers: ["Retry-After": "1"]))),
    ("rate_limited", .response(ScriptedServer.problem(429, "rate_limited", headers: ["Retry-After": "9"]))),
    ("request_timeout", .response(ScriptedServer.problem(408, "request_timeout"))),
    ("an unknown code of a 5xx", .response(ScriptedServer.problem(507, "new_code"))),
  ])
  func `a purchase survives`(_ name: String, _ fault: ScriptedServer.Fault) async throws {
    let device = Device()
    let client = await launch(device)
    device.server.next("validate", fault)
    let error = try await failure { try await client.submit(.signedTransaction("jws")) }
    #expect(error.advice == .retry)
    #expect(await client.proofs.count == 1)
    // The app is ended, and started again.
    let next = await launch(device)
    #expect(await next.proofs.count == 1)
    _ = await next.step()
    #expect(device.server.purchases == ["jws": "phone"])
    #expect(next.current.isAccessGranted)
    #expect(await next.proofs.isEmpty)
    #expect(await launch(device).proofs.isEmpty)
  }

  @Test(arguments: [
    (400, "invalid_request"), (400, "invalid_json"), (404, "transaction_not_found"), (404, "not_found"),
    (409, "belongs_to_another_customer"), (413, "payload_too_large"), (415, "unsupported_media_type"),
    (422, "invalid_signature"), (422, "certificate_expired"), (422, "wrong_app"), (422, "wrong_environment"),
    (422, "unknown_product"), (405, "method_not_allowed"), (431, "headers_too_large"), (414, "uri_too_long"),
    (417, "expectation_failed"), (409, "new_code"),
  ])
  func `a final answer ends a purchase with its reason`(_ status: Int, _ code: String) async throws {
    let device = Device()
    let client = await launch(device)
    device.server.next("validate", .response(ScriptedServer.problem(status, code)))
    let error = try await failure { try await client.submit(.signedTransaction("jws")) }
    #expect(error.code.rawValue == code)
    #expect(error.advice == .giveUp)
    #expect(error.status == status)
    #expect(error.message == "A sentence.")
    #expect(error.requestID == "r1")
    #expect(await client.proofs.isEmpty)
    #expect(await launch(device).proofs.isEmpty)
  }

  @Test func `a purchase that was accepted with a remark is final, and the result has the remark`()
    async throws
  {
    let device = Device()
    let client = await launch(device)
    let token = device.server.token("phone", access: .init())
    let body =
      #"{"success":true,"code":"device_limit_reached","entitlements":{"entitlementToken":"\#(token)"}}"#
    device.server.next("validate", .response(.init(status: 200, body: Data(body.utf8))))
    let entitlement = try await client.submit(.signedTransaction("jws"))
    #expect(entitlement.remark == .deviceLimitReached)
    #expect(!entitlement.isAccessGranted)
    #expect(await client.proofs.isEmpty)
  }

  @Test func `Retry-After is obeyed, and the wait grows with jitter otherwise`() async throws {
    let device = Device()
    let client = await launch(device)
    device.server.next(
      "validate", .response(ScriptedServer.problem(429, "rate_limited", headers: ["Retry-After": "60"])))
    _ = try await failure { try await client.submit(.signedTransaction("a")) }
    let error = try await failure { try await client.submit(.signedTransaction("b")) }
    #expect(error.code == .rateLimited)
    #expect(error.retryAfter == 60)
    #expect(device.server.requests("validate") == 1)
    device.server.pass(59)
    _ = await client.step()
    #expect(device.server.requests("validate") == 1)
    device.server.pass(3)
    _ = await client.step()
    #expect(device.server.purchases.count == 2)

    var pace = Pace()
    var waits: [TimeInterval] = []
    for _ in 0..<14 {
      pace.fail(.offline(""), at: 0, random: 0.999_999)
      waits.append(pace.due.rounded())
    }
    #expect(waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600])
    pace.fail(.offline(""), at: 0, random: 0)
    #expect(pace.due == 1)
  }

  @Test func `purchases are sent one after the other, and the same one only once`() async throws {
    let device = Device()
    let client = await launch(device)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<10 {
        group.addTask { try await client.submit(.signedTransaction("jws-\(number / 2)")) }
      }
      try await group.waitForAll()
    }
    #expect(device.server.mostRunning("validate") == 1)
    #expect(device.server.purchases.count == 5)
  }

  @Test func `a purchase that the server cannot process does not hold up the others`() async throws {
    let device = Device()
    let client = await launch(device)
    device.server.next("validate", .response(ScriptedServer.problem(500, "internal")))
    _ = try await failure { try await client.submit(.signedTransaction("a")) }
    try await client.submit(.signedTransaction("b"))
    #expect(device.server.purchases == ["b": "phone"])
    device.server.pass(10)
    _ = await client.step()
    #expect(device.server.purchases == ["a": "phone", "b": "phone"])
  }

  @Test func `a purchase of a user who signed out waits for that user`() async throws {
    let device = Device()
    let (ada, ben) = (Customer.user(UUID()), Customer.user(UUID()))
    let client = device.launch()
    await client.enter(ada)
    device.tokens.with { $0 = ["\(ada.id)|1"] }
    device.server.isDown(true)
    _ = try await failure { try await client.submit(.signedTransaction("jws")) }
    await client.signOut()
    let error = try await failure { try await client.submit(.signedTransaction("other")) }
    #expect(error.code == .notSignedIn)
    device.server.isDown(false)
    device.tokens.with { $0 = ["\(ben.id)|1"] }
    await client.enter(ben)
    device.server.pass(100)
    _ = await client.step()
    #expect(device.server.purchases.isEmpty)
    #expect(!client.current.isAccessGranted)
    device.tokens.with { $0 = ["\(ada.id)|1"] }
    await client.enter(ada)
    _ = await client.step()
    #expect(device.server.purchases == ["jws": ada.id])
  }

  @Test func `a 401 asks the app for a new token once, and the purchase waits for the next sign-in`()
    async throws
  {
    let device = Device()
    let ada = Customer.user(UUID())
    let client = device.launch()
    await client.enter(ada)
    device.server.accept(tokens: ["\(ada.id)|2"])
    device.tokens.with { $0 = ["\(ada.id)|1", "\(ada.id)|2"] }
    try await client.submit(.signedTransaction("a"))
    #expect(device.server.requests("validate") == 2)
    device.server.accept(tokens: [])
    let error = try await failure { try await client.submit(.signedTransaction("b")) }
    #expect(error.advice == .signIn)
    #expect(error.code == .unauthenticated)
    #expect(device.server.requests("validate") == 4)
    #expect(client.current.isAccessGranted)
    device.tokens.with { $0 = [] }
    let none = try await failure { try await client.refresh() }
    #expect(none.code == .notSignedIn)
    device.server.accept(tokens: ["\(ada.id)|3"])
    device.tokens.with { $0 = ["\(ada.id)|3"] }
    await client.enter(ada)
    _ = await client.step()
    #expect(device.server.purchases.keys.sorted() == ["a", "b"])
  }

  @Test func `a restore of a user is one request, and one of a device a request for each transaction`()
    async throws
  {
    let device = Device()
    let ada = Customer.user(UUID())
    device.tokens.with { $0 = ["\(ada.id)|1"] }
    let client = device.launch()
    await client.enter(ada)
    #expect(try await client.sync(["a", "b"], appTransaction: "app").isAccessGranted)
    #expect(device.server.requests.filter { $0.method == "PUT" }.count == 1)
    await client.enter(phone)
    #expect(try await client.sync(["c", "d"], appTransaction: "app").isAccessGranted)
    #expect(device.server.requests("validate") == 2)
    #expect(try await client.sync([], appTransaction: nil).isAccessGranted)
    // A refused transaction is an error only where nothing is open.
    device.server.next("validate", .response(ScriptedServer.problem(422, "unknown_product")))
    #expect(try await client.sync(["e", "f"], appTransaction: nil).isAccessGranted)
    await client.enter(.device("tablet"))
    device.server.next("validate", .response(ScriptedServer.problem(409, "belongs_to_another_customer")))
    let error = try await failure { try await client.sync(["g"], appTransaction: nil) }
    #expect(error.code == .belongsToAnotherCustomer)
  }

  @Test func `a store that cannot be written or read loses nothing while the app runs`() async throws {
    let device = Device()
    let broken = BrokenStore()
    let client = device.launch(change: {
      $0.store = broken
      $0.queues = broken
    })
    await client.enter(phone)
    let error = try await failure { try await client.submit(.signedTransaction("jws")) }
    // Without the secret nothing is sent: a second secret would lock the device out.
    #expect(error.code == .storeFailed)
    #expect(error.advice == .retry)
    #expect(device.server.requests.isEmpty)
    broken.isBroken.with { $0 = false }
    device.server.pass(10)
    _ = await client.step()
    #expect(device.server.purchases == ["jws": "phone"])
    // A launch with a locked keychain shows what is kept as soon as it can be read.
    broken.isBroken.with { $0 = true }
    let locked = device.launch(change: {
      $0.store = broken
      $0.queues = broken
    })
    await locked.enter(phone)
    #expect(locked.current.source == .none)
    broken.isBroken.with { $0 = false }
    device.server.isDown(true)
    _ = await locked.step()
    #expect(locked.current.isAccessGranted)
    #expect(locked.current.source == .cache)
  }

  @Test(arguments: [true, false])
  func `a purchase counts more than a response of the same second that may be from before it`(
    _ purchaseIsSentFirst: Bool
  ) async throws {
    let device = Device()
    let (gate, opener) = AsyncStream<Void>.makeStream()
    let transport = HeldTransport(
      device.server, purchaseIsSentFirst ? .request("validate") : .response("entitlements"), until: gate)
    let client = device.launch(change: { $0.transport = transport })
    await client.enter(phone)
    if purchaseIsSentFirst {
      async let bought = client.submit(.signedTransaction("jws"))
      await transport.reached()
      #expect(try await client.refresh().isAccessGranted == false)
      opener.finish()
      #expect(try await bought.isAccessGranted)
    } else {
      async let read = client.refresh()
      await transport.reached()
      #expect(try await client.submit(.signedTransaction("jws")).isAccessGranted)
      opener.finish()
      #expect(try await read.isAccessGranted)
      // The first response is from before the purchase.
      #expect(device.server.requests("entitlements") == 2)
    }
    #expect(client.current.isAccessGranted)
  }

  @Test func `requests at once make one secret`() async throws {
    let device = Device()
    let configuration = device.launch().configuration
    let secrets = try await withThrowingTaskGroup(of: String.self) { group in
      for _ in 0..<64 { group.addTask { try configuration.deviceSecret() } }
      return try await group.reduce(into: Set<String>()) { $0.insert($1) }
    }
    #expect(secrets.count == 1)
  }
}

/// A keychain that is locked.
private final class BrokenStore: EntitlementStore {
  struct Locked: Error {}
  let isBroken = Protected(true)
  private let store = MemoryStore()

  func read(_ key: String) throws -> Data? {
    if isBroken.with({ $0 }) { throw Locked() }
    return store.read(key)
  }
  func write(_ data: Data, for key: String) throws {
    if isBroken.with({ $0 }) { throw Locked() }
    store.write(data, for: key)
  }
  func remove(_ key: String) throws { store.remove(key) }
}

/// Holds the first request to a path before it arrives, or its response after it.
private final class HeldTransport: Transport {
  enum Point {
    case request(String)
    case response(String)
  }

  private let server: ScriptedServer
  private let point: Point
  private let gate: AsyncStream<Void>
  private let isReached = Protected(false)

  init(_ server: ScriptedServer, _ point: Point, until gate: AsyncStream<Void>) {
    (self.server, self.point, self.gate) = (server, point, gate)
  }

  func reached() async {
    while !isReached.with({ $0 }) { await Task.yield() }
  }

  private func isFirst() -> Bool {
    isReached.with { isReached in
      defer { isReached = true }
      return !isReached
    }
  }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    switch point {
    case .request(let path) where request.url.path.hasSuffix(path) && isFirst():
      for await _ in gate {}
      return try await server.send(request)
    case .response(let path) where request.url.path.hasSuffix(path):
      let response = try await server.send(request)
      if isFirst() { for await _ in gate {} }
      return response
    default: return try await server.send(request)
    }
  }
}
