// A customer of SwiftClimb and of ScreenTime Rewards in a terminal, against `scripts/demo --serve`.
//
//   swift run --package-path Client terminal           reads commands
//   swift run --package-path Client terminal --story   plays a story and checks it
//
// It needs SWIFTCLIMB_JWT_SECRET of the demo, which stands in for the app's sign-in.

import Foundation
import ReceiptdClient

struct Climbing: Codable, Sendable {
  var sessionHistoryDays: Limit
  var insights: Bool
  var outdoorSearch: Bool
}

struct ScreenTime: Codable, Sendable {
  var challengeCreation: Permission
  var childDevices: Limit
}

/// The network of the phone, which the `offline` command cuts.
actor Network: Transport {
  var isOffline = false
  private let wire = URLSessionTransport()

  func set(offline: Bool) { isOffline = offline }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    if isOffline { throw URLError(.notConnectedToInternet) }
    return try await wire.send(request)
  }
}

actor SignIn {
  private var session: Session?
  func set(_ session: Session?) { self.session = session }
  var token: String? { session?.token }
}

func setting(_ name: String, _ usual: String) -> String {
  ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 } ?? usual
}

func address(_ name: String, _ usual: String) -> URL {
  guard let url = URL(string: setting(name, usual)) else {
    print("\(name): no address")
    exit(1)
  }
  return url
}

let server = address("RECEIPTD_URL", "http://127.0.0.1:3000")
let store = Store(address: address("STORE_URL", "http://127.0.0.1:4000"))
let secret = setting("SWIFTCLIMB_JWT_SECRET", "a-secret-that-only-the-demo-uses-0123456789")
let network = Network()
let signIn = SignIn()
let climbingBundle = "com.swiftclimb.app"
let screenTimeBundle = "com.screentimerewards"

func configuration(_ bundle: String, phone: String) -> ReceiptdConfiguration {
  var configuration = ReceiptdConfiguration(server: server, bundleID: bundle)
  configuration.transport = network
  // A story begins with a new phone; the commands keep what they did.
  configuration.store = FileStore(bundleID: "\(bundle).\(phone)")
  configuration.queues = configuration.store
  return configuration
}

func climbing(phone: String) -> Receiptd<Climbing> {
  Receiptd(
    configuration(climbingBundle, phone: phone),
    free: Climbing(sessionHistoryDays: 30, insights: false, outdoorSearch: false),
    token: { _ in await signIn.token })
}

func screenTime(phone: String) -> Receiptd<ScreenTime> {
  Receiptd(
    configuration(screenTimeBundle, phone: phone),
    free: ScreenTime(challengeCreation: .denied, childDevices: 0))
}

func describe<F>(_ entitlement: Entitlement<F>) -> String {
  let end = entitlement.validUntil.map { ", until \($0.formatted(.iso8601))" } ?? ""
  let tier = entitlement.tier ?? "no tier"
  return
    "\(entitlement.isAccessGranted ? "open" : "free"): \(tier), \(entitlement.status.rawValue)\(end) (\(entitlement.source.rawValue))"
}

/// Asks the server again until it answers, for ten seconds: a refresh that began offline may still be under way, and its
/// failure is that of all who wait for it.
func refreshed<F>(_ app: Receiptd<F>) async throws -> Entitlement<F> {
  for _ in 0..<20 {
    if let shown = try? await app.refresh() { return shown }
    try await Task.sleep(for: .milliseconds(500))
  }
  return try await app.refresh()
}

/// Plays the story; a wrong turn ends the program with status 1.
func story() async throws {
  func expect(_ isRight: Bool, _ text: String) {
    print(isRight ? "  \(text)" : "  WRONG: \(text)")
    if !isRight { exit(1) }
  }
  let run = UUID().uuidString
  let (ada, ben) = (UUID(), UUID())
  let app = climbing(phone: run)
  print("Ada signs in and buys")
  await signIn.set(Session(user: ada, secret: secret))
  await app.signIn(.user(ada))
  let bought = try await store.buy(
    "com.swiftclimb.premium.monthly", of: climbingBundle, user: ada, account: run)
  var shown = try await app.submit(.signedTransaction(bought.jws))
  expect(shown.isAccessGranted && shown.features.insights, describe(shown))
  print("The phone goes offline, and the app is started again")
  await network.set(offline: true)
  let again = climbing(phone: run)
  shown = await again.signIn(.user(ada))
  expect(shown.isAccessGranted && shown.source == .cache, describe(shown))
  print("Ben signs in on the same phone")
  await signIn.set(Session(user: ben, secret: secret))
  shown = await again.signIn(.user(ben))
  expect(!shown.isAccessGranted, describe(shown))
  print("The network is back; the App Store refunds Ada")
  await network.set(offline: false)
  shown = try await refreshed(again)
  expect(!shown.isAccessGranted && shown.source == .server, describe(shown))
  try await store.change(bought.id, "refund")
  await signIn.set(Session(user: ada, secret: secret))
  await again.signIn(.user(ada))
  shown = try await again.refresh()
  expect(shown.status == .cancelled && PaywallReason(shown) == .refunded, describe(shown))

  print("A parent's device starts its trial, buys, and pairs a child's device")
  let (parent, child) = (screenTime(phone: "parent-\(run)"), screenTime(phone: "child-\(run)"))
  await parent.signIn(.device("parent-\(run)"))
  await child.signIn(.device("child-\(run)"))
  let trial = try await parent.startTrial(
    appTransaction: await store.appTransaction(of: screenTimeBundle, account: run))
  expect(trial.endsAt != nil, "trial until \(trial.endsAt?.formatted(.iso8601) ?? "never")")
  let family = try await store.buy(
    "com.screentimerewards.family.monthly", of: screenTimeBundle, user: nil, account: run)
  let parents = try await parent.submit(.signedTransaction(family.jws))
  expect(parents.features.childDevices == 5, describe(parents))
  let code = try await parent.pairingCode()
  let pairing = try await child.join(code: code.code, name: "Emma's iPad")
  expect(
    pairing.isActive && child.current.isAccessGranted,
    "the child with code \(code.code): \(describe(child.current))")
  print("The story is over")
}

/// Reads commands until the end of the input.
func commands() async throws {
  let help = """
    user NAME   sign in (Ada and Ben are two users)     buy [annual]   buy a subscription
    refund      the App Store refunds the last purchase  renew          … renews it
    offline, online, status, refresh, track NAME, signout, quit
    """
  let app = climbing(phone: "terminal")
  let running = Task { await app.run() }
  var last: String?
  var user: UUID?
  print(help)
  while let line = readLine() {
    let words = line.split(separator: " ").map(String.init)
    do {
      switch words.first {
      case "user":
        // A user's id is made from the name, so that it is the same in the next run.
        let name = Array((words.dropFirst().first ?? "ada").lowercased().utf8.prefix(16))
        let bytes = name + Array(repeating: 0, count: 16 - name.count)
        let hex = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let parts = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { range in
          String(Array(hex)[range])
        }
        guard let id = UUID(uuidString: parts.joined(separator: "-")) else { continue }
        user = id
        await signIn.set(Session(user: id, secret: secret))
        print(describe(await app.signIn(.user(id))))
      case "buy":
        let product = "com.swiftclimb.premium.\(words.dropFirst().first ?? "monthly")"
        let bought = try await store.buy(product, of: climbingBundle, user: user, account: "terminal")
        last = bought.id
        print(describe(try await app.submit(.signedTransaction(bought.jws))))
      case "refund", "renew": if let last { try await store.change(last, words[0]) }
      case "offline": await network.set(offline: true)
      case "online": await network.set(offline: false)
      case "refresh": print(describe(try await app.refresh()))
      case "track": await app.track(words.dropFirst().first ?? "paywall_shown")
      case "signout":
        await signIn.set(nil)
        await app.signOut()
      case "status": print(describe(app.current))
      case "quit":
        running.cancel()
        return
      default: print(help)
      }
    } catch let error as ReceiptdError {
      print("\(error.message) [\(error)] \(error.advice)")
    }
  }
}

do {
  if CommandLine.arguments.dropFirst().first == "--story" { try await story() } else { try await commands() }
} catch {
  print("\(error)")
  exit(1)
}
