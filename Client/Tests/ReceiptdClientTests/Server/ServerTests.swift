import Foundation
import Testing

@testable import ReceiptdClient

/// The client against a real receiptd and simulated App Store, over real sockets. The tests share a server and its clock,
/// so they run one after the other.
@Suite(
  .serialized, .enabled(if: Stage.binaries != nil, "RECEIPTD_BIN names no folder of receiptd's programs"))
struct ServerTests {
  struct Climbing: Codable, Sendable, Hashable {
    var sessionHistoryDays: Limit
    var insights: Bool
    var outdoorSearch: Bool
    static let free = Climbing(sessionHistoryDays: 30, insights: false, outdoorSearch: false)
  }

  struct ScreenTime: Codable, Sendable, Hashable {
    var challengeCreation: Permission
    var screenTimeTracking: Permission
    var childDevices: Limit
    var analytics: String
    static let free = ScreenTime(
      challengeCreation: .denied, screenTimeTracking: .denied, childDevices: 0, analytics: "denied")
  }

  private func climber(_ phone: Phone, _ user: UUID) async -> Receiptd<Climbing> {
    phone.users.with { $0 = user }
    let client = phone.launch(Climbing.free)
    await client.enter(.user(user))
    return client
  }

  private func device(_ phone: Phone, _ id: String) async -> Receiptd<ScreenTime> {
    let client = phone.launch(ScreenTime.free)
    await client.enter(.device(id))
    return client
  }

  @Test func `a user buys, the subscription renews while the app runs, and a refund ends it`() async throws {
    let stage = try await Stage.shared()
    let phone = Phone(stage, Stage.climbing)
    let user = UUID()
    let client = await climber(phone, user)
    #expect(try await !client.refresh().isAccessGranted)
    #expect(!client.current.everHadAccess)
    let bought = try await stage.buy("com.swiftclimb.premium.monthly", of: Stage.climbing, user: user)
    let paid = try await client.submit(.signedTransaction(bought.signedTransaction))
    #expect(paid.features == Climbing(sessionHistoryDays: .unlimited, insights: true, outdoorSearch: true))
    #expect(paid.tier == "premium")
    #expect(paid.everHadAccess)
    let end = try #require(paid.validUntil)
    // The App Store renews shortly before the end, and the loop asks a moment after it.
    try stage.advance(seconds: end.timeIntervalSince(stage.now) - 60)
    let wait = await client.step()
    #expect((55...75).contains(wait))
    try await stage.command("renew", bought)
    try stage.advance(seconds: wait + 1)
    _ = await client.step()
    #expect(client.current.validUntil.map { $0 > end.addingTimeInterval(20 * 86_400) } == true)
    #expect(client.current.source == .server)
    try await stage.command("refund", bought)
    try stage.advance(days: 0.31)
    _ = await client.step()
    #expect(!client.current.isAccessGranted)
    #expect(client.current.status == .cancelled)
  }

  @Test func `offline use ends with the grace of days, or with the paid time, as the app is configured`()
    async throws
  {
    let stage = try await Stage.shared()
    let (climbing, screenTime) = (Phone(stage, Stage.climbing), Phone(stage, Stage.screenTime))
    let user = UUID()
    let climber = await climber(climbing, user)
    let child = await device(screenTime, "offline \(user)")
    let annual = try await stage.buy("com.swiftclimb.premium.annual", of: Stage.climbing, user: user)
    let monthly = try await stage.buy("com.screentimerewards.family.monthly", of: Stage.screenTime)
    try await climber.submit(.signedTransaction(annual.signedTransaction))
    try await child.submit(.signedTransaction(monthly.signedTransaction))
    climbing.network.fault.with { $0 = .offline }
    screenTime.network.fault.with { $0 = .proxyPage }
    try stage.advance(days: 6.9)
    #expect(child.current.isAccessGranted)
    try stage.advance(days: 0.2)
    #expect(!child.current.isAccessGranted)
    #expect(climber.current.isAccessGranted)
    // The owner sets the clock back and forward: neither gains or loses anything.
    climbing.clock.setWall(offBy: -1000 * 86_400)
    screenTime.clock.setWall(offBy: -10 * 86_400)
    #expect(!child.current.isAccessGranted)
    #expect(climber.current.isAccessGranted)
    climbing.clock.setWall(offBy: 1000 * 86_400)
    #expect(climber.current.isAccessGranted)
    try stage.advance(days: 365)
    #expect(!climber.current.isAccessGranted)
    climbing.clock.setWall(offBy: 0)
    screenTime.network.fault.with { $0 = .none }
    screenTime.clock.setWall(offBy: 0)
    #expect(try await child.refresh().status != .active)
  }

  @Test func `a rotated key and a withdrawn key reach the app`() async throws {
    let stage = try await Stage.shared()
    let phone = Phone(stage, Stage.climbing)
    let user = UUID()
    let client = await climber(phone, user)
    try await client.refresh()
    let stolen = try #require(client.core.board.held).token
    try stage.receiptd(["rotate-entitlement-key", "--leaked", "--by", "tests", "--reason", "a leak"])
    stage.killServer()
    try await stage.startServer()
    try stage.advance(seconds: 61)
    // The device's uptime follows the stage's clock.
    try await client.refresh()
    let new = try #require(client.core.board.held).token
    #expect(new.split(separator: ".")[0] != stolen.split(separator: ".")[0])
    phone.store.write(
      Data(#"{"token":"\#(stolen)","everHadAccess":true}"#.utf8), for: StoreKeys.entitlement(of: .user(user)))
    #expect(await climber(phone, user).current.source == .none)
  }

  @Test func `two users of one phone have their own access, and a purchase stays with the one who bought`()
    async throws
  {
    let stage = try await Stage.shared()
    let phone = Phone(stage, Stage.climbing)
    let (ada, ben) = (UUID(), UUID())
    let client = await climber(phone, ada)
    let bought = try await stage.buy("com.swiftclimb.premium.monthly", of: Stage.climbing, user: ada)
    try await client.submit(.signedTransaction(bought.signedTransaction))
    await client.signOut()
    phone.users.with { $0 = ben }
    await client.enter(.user(ben))
    #expect(!client.current.isAccessGranted)
    #expect(try await !client.refresh().isAccessGranted)
    let error = try await failure { try await client.submit(.signedTransaction(bought.signedTransaction)) }
    #expect(error.code == .belongsToAnotherCustomer)
    #expect(error.advice == .giveUp)
    #expect(error.status == 409)
    // The session is still Ada's, and the app says Ben: nothing is sent.
    phone.users.with { $0 = ada }
    #expect(try await failure { try await client.refresh() }.code == .forbidden)
    await client.enter(.user(ada))
    #expect(try await client.refresh().isAccessGranted)
  }

  @Test func `the server is down during a purchase, the app is killed, and nothing is lost`() async throws {
    let stage = try await Stage.shared()
    let phone = Phone(stage, Stage.climbing)
    let user = UUID()
    let client = await climber(phone, user)
    let bought = try await stage.buy("com.swiftclimb.premium.monthly", of: Stage.climbing, delivers: false)
    stage.killServer()
    let error = try await failure { try await client.submit(.signedTransaction(bought.signedTransaction)) }
    #expect(error.code == .offline)
    await client.track("purchase_initiated")
    try await stage.startServer()
    let next = await climber(phone, user)
    // Its response is lost once more.
    phone.network.fault.with { $0 = .lostResponse }
    _ = await next.step()
    phone.network.fault.with { $0 = .none }
    for _ in 0..<4 {
      try stage.advance(seconds: 20)
      _ = await next.step()
    }
    #expect(next.current.isAccessGranted)
    #expect(await next.proofs.isEmpty)
    #expect(try stage.query("SELECT count(*) FROM subscriptions WHERE user_id = '\(user)'") == "1")
    #expect(
      try stage.query(
        "SELECT count(*) FROM receiptd.events WHERE customer_id = '\(user.uuidString.lowercased())'") == "1")
  }

  @Test func `a rate limit and a database that is away are waited for`() async throws {
    let stage = try await Stage.shared()
    let phone = Phone(stage, Stage.climbing)
    let user = UUID()
    let client = await climber(phone, user)
    stage.killServer()
    try await stage.startServer(["RATE_LIMIT": "1"])
    var limited: ReceiptdError?
    for _ in 0..<200 where limited == nil {
      do { try await client.refresh() } catch let error as ReceiptdError { limited = error }
    }
    #expect(limited?.code == .rateLimited)
    #expect(limited?.advice == .retry)
    #expect((limited?.retryAfter ?? 0) > 0)
    stage.killServer()
    try await stage.startServer()
    try stage.advance(days: 1)
    try await client.refresh()
    let bought = try await stage.buy("com.swiftclimb.premium.monthly", of: Stage.climbing, delivers: false)
    try await stage.postgres("down")
    let error = try await failure { try await client.submit(.signedTransaction(bought.signedTransaction)) }
    #expect(error.code == .databaseUnavailable)
    #expect(error.advice == .retry)
    try await stage.postgres("up")
    try stage.advance(seconds: 30)
    for _ in 0..<100 where await !client.proofs.isEmpty {
      try stage.advance(seconds: 10)
      _ = await client.step()
    }
    #expect(client.current.isAccessGranted)
  }

  @Test func `a trial begins, a household shares the plan, and a refund pauses the child`() async throws {
    let stage = try await Stage.shared()
    let (parentPhone, childPhone) = (Phone(stage, Stage.screenTime), Phone(stage, Stage.screenTime))
    let id = UUID().uuidString
    let (parent, child) = (await device(parentPhone, "parent-\(id)"), await device(childPhone, "child-\(id)"))
    let app = try await stage.appTransaction(of: Stage.screenTime, account: "account-\(id)")
    let trial = try await parent.startTrial(appTransaction: app)
    #expect(trial.endsAt.map { $0 > stage.now.addingTimeInterval(29 * 86_400) } == true)
    #expect(parent.current.status == .trial)
    #expect(TimeLeft(parent.current, at: stage.now)?.days == 30)
    let bought = try await stage.buy(
      "com.screentimerewards.family.monthly", of: Stage.screenTime, account: "account-\(id)")
    #expect(try await parent.submit(.signedTransaction(bought.signedTransaction)).features.childDevices == 5)
    let code = try await parent.pairingCode()
    let own = try await stage.appTransaction(of: Stage.screenTime, account: "child-\(id)")
    #expect(try await child.join(code: code.code, name: "Emma's iPad", appTransaction: own).isActive)
    #expect(child.current.isAccessGranted)
    #expect(child.current.features.analytics == "advanced")
    #expect(try await parent.children().map(\.name) == ["Emma's iPad"])
    let again = try await failure { try await child.join(code: "AAAA-AAAA", name: nil) }
    #expect(again.code == .pairingCodeInvalid)
    // Its keychain is lost: the app transaction of the join brings a new secret.
    childPhone.store.remove(StoreKeys.deviceSecret)
    #expect(try await child.refresh().pairing?.isActive == true)
    let none = try await failure { try await child.startTrial(appTransaction: app) }
    #expect(none.advice == .giveUp || none.advice == .restore)
    try await stage.command("refund", bought)
    // The trial still runs: 30 days. After it the parent has nothing, nor has the child.
    try stage.advance(days: 45)
    #expect(try await !parent.refresh().isAccessGranted)
    #expect(try await !child.refresh().isAccessGranted)
    #expect(child.current.pairing?.reason == "parent_without_access")
    #expect(PaywallReason(child.current) == .parentWithoutAccess)
    #expect(try await parent.unpair(child: "child-\(id)").isEmpty)
    try await child.refresh()
    #expect(child.current.pairing == nil)
    try await parent.consent(true)
    // A reinstall with the same device id has lost the secret, and proves itself with the app transaction.
    let reinstalled = Phone(stage, Stage.screenTime)
    let fresh = await device(reinstalled, "parent-\(id)")
    let refused = try await failure { try await fresh.refresh() }
    #expect(refused.advice == .restore)
    try await fresh.startTrial(appTransaction: app)
    try await fresh.refresh()
  }
}
