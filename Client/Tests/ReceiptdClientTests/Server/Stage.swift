import Foundation

@testable import ReceiptdClient

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

/// A real receiptd, PostgreSQL and simulated App Store, whose clocks a test moves together.
///
/// `RECEIPTD_BIN` names the folder of `receiptd` and `appstore-simulator`.
final class Stage: Sendable {
  /// The folder of the programs; `nil` where the tests of this folder cannot run.
  static let binaries = ProcessInfo.processInfo.environment["RECEIPTD_BIN"].flatMap { $0.isEmpty ? nil : $0 }
  static let climbing = "com.swiftclimb.app"
  static let screenTime = "com.screentimerewards"
  static let heatlab = "com.heatlab.app"
  private static let secret = "a-secret-that-only-these-tests-use-0123456789"

  let folder: URL
  let database: String
  let address: URL
  private let store: URL
  private let port: Int
  private let adminPort: Int
  private let environment: [String: String]
  private let shift: Protected<Int64>
  private let server = Protected<pid_t?>(nil)
  private let http = URLSessionTransport(timeout: 120)
  static let project = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../../..").standardizedFileURL

  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// The stage of this process; the first call starts it.
  static func shared() async throws -> Stage { try await starting.value }
  private static let starting = Task.detached { try await Stage() }

  private init() async throws {
    let binaries = Self.binaries ?? ""
    // A write to a server that was killed must be an error and not end the tests.
    signal(SIGPIPE, SIG_IGN)
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("receiptd-client.\(UUID())")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
    let (library, file) = (folder.appendingPathComponent("shift.so"), folder.appendingPathComponent("shift"))
    try Data(count: 8).write(to: file)
    _ = try Self.run(
      "cc",
      [
        "-shared", "-fPIC", "-O1", "-o", library.path,
        Self.project.appendingPathComponent("Client/Tests/clock/shift.c").path,
      ])
    // PostgreSQL runs as another user.
    for path in [library.path, file.path] {
      try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
    }
    let moved = ["LD_PRELOAD": library.path, "CLOCK_SHIFT_FILE": file.path]
    let postgres = folder.appendingPathComponent("postgres")
    database = try Self.run(
      Self.project.appendingPathComponent("scripts/private-postgres").path, ["start", postgres.path],
      moved.merging(["PG_OPTIONS": "-c fsync=off"]) { $1 }
    ).trimmingCharacters(in: .whitespacesAndNewlines)

    let (port, adminPort, storePort) = (try Self.freePort(), try Self.freePort(), try Self.freePort())
    (self.port, self.adminPort) = (port, adminPort)
    address = Self.url("http://127.0.0.1:\(port)")
    store = Self.url("http://127.0.0.1:\(storePort)")
    let authority = folder.appendingPathComponent("authority")
    let apps = Self.project.appendingPathComponent("config/apps.json").path
    shift = Protected(0)
    let simulator = try Self.spawn(
      "\(binaries)/appstore-simulator",
      [
        "serve", "--port", "\(storePort)", "--folder", authority.path, "--config", apps, "--no-retries",
        "--webhook",
        "http://127.0.0.1:\(port)/api/v1/subscriptions/webhook",
      ], moved, output: folder.appendingPathComponent("store.log"))
    try Data("\(simulator)\n".utf8).write(to: folder.appendingPathComponent("store.pid"))
    try Self.reap(folder, postgres)
    try await Self.await(store.appendingPathComponent("control/clock"))
    var environment = moved
    let settings = try String(contentsOf: authority.appendingPathComponent("receiptd.env"), encoding: .utf8)
    for line in settings.split(separator: "\n") {
      let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
      if parts.count == 2 { environment[parts[0]] = parts[1].trimmingCharacters(in: ["'", "\""]) }
    }
    environment["DATABASE_URL"] = database
    environment["PORT"] = "\(port)"
    environment["ADMIN_PORT"] = "\(adminPort)"
    environment["RATE_LIMIT"] = "off"
    environment["LOG_LEVEL"] = "notice"
    environment["RECEIPTD_CONFIG"] = apps
    environment["RECEIPTD_MIGRATIONS"] = Self.project.appendingPathComponent("migrations").path
    environment["APP_STORE_URL"] = store.absoluteString
    environment["APP_STORE_SANDBOX_URL"] = store.absoluteString + "/sandbox"
    environment["SWIFTCLIMB_JWT_SECRET"] = Self.secret
    environment["THAQALAYN_JWT_SECRET"] = Self.secret
    self.environment = environment
    try await startServer()
  }

  // MARK: Server

  func startServer(_ settings: [String: String] = [:]) async throws {
    let process = try Self.spawn(
      "\(Self.binaries ?? "")/receiptd", ["serve"], environment.merging(settings) { $1 },
      output: folder.appendingPathComponent("receiptd.log"))
    server.with { $0 = process }
    try Data("\(process)\n".utf8).write(to: pidFile)
    try await Self.await(Self.url("http://127.0.0.1:\(adminPort)/readyz"))
  }

  private var pidFile: URL { folder.appendingPathComponent("receiptd.pid") }

  func killServer() {
    // Another process may get the id.
    try? FileManager.default.removeItem(at: pidFile)
    server.with { process in
      guard let running = process else { return }
      kill(running, SIGKILL)
      Self.end(of: running)
      process = nil
    }
  }

  func postgres(_ action: String) async throws {
    _ = try Self.run(
      Self.project.appendingPathComponent("scripts/private-postgres").path,
      [action, folder.appendingPathComponent("postgres").path],
      environment.merging(["PG_OPTIONS": "-c fsync=off"]) { $1 })
    if action == "up" { try await Self.await(Self.url("http://127.0.0.1:\(adminPort)/readyz")) }
  }

  /// Runs a command of receiptd, such as support's.
  @discardableResult
  func receiptd(_ arguments: [String]) throws -> String {
    try Self.run("\(Self.binaries ?? "")/receiptd", arguments, environment)
  }

  /// The first column of a query, a line for each row.
  func query(_ sql: String) throws -> String {
    try Self.run("psql", [database, "-XAtc", sql]).trimmingCharacters(in: .whitespacesAndNewlines)
  }

  // MARK: Time

  /// The seconds by which all clocks are ahead of the real time.
  var shifted: TimeInterval { TimeInterval(shift.with { $0 }) / 1e9 }
  var now: Date { Date().addingTimeInterval(shifted) }

  func advance(days: Double) throws { try advance(seconds: days * 86_400) }

  func advance(seconds: Double) throws {
    let value = shift.with { value in
      value += Int64(seconds * 1e9)
      return value
    }
    // In place: the programs have mapped the file.
    let file = try FileHandle(forWritingTo: folder.appendingPathComponent("shift"))
    try file.write(contentsOf: withUnsafeBytes(of: value.littleEndian) { Data($0) })
    try file.close()
  }

  // MARK: App Store

  struct Purchase: Decodable, Sendable {
    var transactionID: String
    var originalTransactionID: String
    var signedTransaction: String
  }

  func buy(
    _ product: String, of bundle: String, user: UUID? = nil, account: String? = nil, delivers: Bool = true
  ) async throws -> Purchase {
    var body: [String: Any] = ["bundleID": bundle, "productID": product]
    body["appAccountToken"] = user?.uuidString.lowercased()
    body["account"] = account
    return try await control("purchases\(delivers ? "" : "?deliver=false")", body)
  }

  /// Renews, refunds, … a subscription.
  @discardableResult
  func command(
    _ name: String, _ purchase: Purchase, _ body: [String: Any] = [:], delivers: Bool = true
  ) async throws -> Purchase {
    try await control(
      "subscriptions/\(purchase.originalTransactionID)/\(name)\(delivers ? "" : "?deliver=false")", body)
  }

  func appTransaction(of bundle: String, account: String) async throws -> String {
    struct Answer: Decodable { var signedAppTransaction: String }
    let answer: Answer = try await control("app-transactions", ["bundleID": bundle, "account": account])
    return answer.signedAppTransaction
  }

  struct Truth: Decodable, Sendable {
    var grantsAccess: Bool
    var productID: String
    var expiresDate: String?
  }

  func truth(_ purchase: Purchase) async throws -> Truth {
    let url = Self.url("\(store.absoluteString)/control/truth/\(purchase.originalTransactionID)")
    let response = try await http.send(TransportRequest(method: "GET", url: url))
    return try JSONDecoder().decode(Truth.self, from: response.body)
  }

  func control<Answer: Decodable>(_ path: String, _ body: [String: Any]) async throws -> Answer {
    let url = Self.url("\(store.absoluteString)/control/\(path)")
    let response = try await http.send(
      TransportRequest(
        method: "POST", url: url, headers: ["Content-Type": "application/json"],
        body: try JSONSerialization.data(withJSONObject: body)))
    guard response.status == 200 else {
      throw Failure(
        description: "/control/\(path): \(response.status) \(String(decoding: response.body, as: UTF8.self))")
    }
    return try JSONDecoder().decode(Answer.self, from: response.body)
  }

  // MARK: Users

  /// An access token as Supabase issues it.
  static func accessToken(_ user: UUID, app: String = "swiftclimb", validUntil: Int = 4_000_000_000) -> String
  {
    let header = Base64URL.string(Data(#"{"alg":"HS256","typ":"JWT"}"#.utf8))
    let claims = """
      {"sub":"\(user.uuidString.lowercased())","iss":"https://\(app).supabase.co/auth/v1","aud":"authenticated",\
      "role":"authenticated","exp":\(validUntil)}
      """
    let text = "\(header).\(Base64URL.string(Data(claims.utf8)))"
    let code = HMAC<SHA256>.authenticationCode(
      for: Data(text.utf8), using: SymmetricKey(data: Data(secret.utf8)))
    return "\(text).\(Base64URL.string(Data(code)))"
  }

  // MARK: Processes

  static func url(_ text: String) -> URL { URL(string: text) ?? URL(fileURLWithPath: "/") }

  /// Starts a program with `posix_spawn`: Foundation's `Process` reports an end only after the daemons that a program leaves behind
  /// have ended too.
  private static func spawn(
    _ program: String, _ arguments: [String], _ environment: [String: String], input: Int32? = nil,
    output: URL?
  ) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let input {
      posix_spawn_file_actions_adddup2(&actions, input, 0)
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    }
    posix_spawn_file_actions_addopen(
      &actions, 1, output?.path ?? "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0o600)
    posix_spawn_file_actions_adddup2(&actions, 1, 2)
    // Dispatch's threads block signals, which a child would inherit.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    let words = ([program] + arguments).map { strdup($0) } + [nil]
    let all = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    let variables = all.map { strdup("\($0)=\($1)") } + [nil]
    defer { for pointer in words + variables { free(pointer) } }
    var pid: pid_t = 0
    let reason = posix_spawnp(&pid, program, &actions, &attributes, words, variables)
    guard reason == 0 else { throw Failure(description: "\(program): \(String(cString: strerror(reason)))") }
    return pid
  }

  /// Waits for the end of a program.
  /// - Returns: its exit status, or -1 after a signal.
  @discardableResult
  private static func end(of pid: pid_t) -> Int32 {
    var word: Int32 = 0
    while waitpid(pid, &word, 0) < 0, errno == EINTR {}
    return word & 0x7F == 0 ? word >> 8 & 0xFF : -1
  }

  private static func run(
    _ program: String, _ arguments: [String], _ environment: [String: String] = [:]
  ) throws -> String {
    // A file, because a daemon that the program leaves behind would keep a pipe open.
    let output = FileManager.default.temporaryDirectory.appendingPathComponent(
      "receiptd-client.\(UUID()).out")
    defer { try? FileManager.default.removeItem(at: output) }
    let status = end(of: try spawn(program, arguments, environment, output: output))
    let text = try String(contentsOf: output, encoding: .utf8)
    guard status == 0 else {
      throw Failure(description: "\(program) \(arguments.joined(separator: " ")): \(status) \(text)")
    }
    return text
  }

  /// Ends the programs when this process has ended for any reason: a shell waits for the end of its input.
  private static func reap(_ folder: URL, _ postgres: URL) throws {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw Failure(description: "no pipe") }
    // This process never closes the other end, and no child inherits it.
    _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
    defer { close(ends[0]) }
    let script = """
      trap '' INT TERM HUP; read -r _
      cat '\(folder.path)'/*.pid | xargs kill -9
      '\(project.path)/scripts/private-postgres' remove '\(postgres.path)'
      rm -rf '\(folder.path)'
      """
    _ = try spawn("/bin/sh", ["-c", script], [:], input: ends[0], output: nil)
  }

  private static func await(_ url: URL) async throws {
    let http = URLSessionTransport(timeout: 5)
    let end = Date().addingTimeInterval(60)
    while Date() < end {
      if let response = try? await http.send(TransportRequest(method: "GET", url: url)),
        response.status == 200
      {
        return
      }
      try await Task.sleep(nanoseconds: 50_000_000)
    }
    throw Failure(description: "no answer from \(url)")
  }

  private static func freePort() throws -> Int {
    for _ in 0..<100 {
      let port = Int.random(in: 10_000..<30_000)
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      defer { close(descriptor) }
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = UInt16(port).bigEndian
      address.sin_addr.s_addr = inet_addr("127.0.0.1")
      let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      if result == 0 { return port }
    }
    throw Failure(description: "no free port")
  }
}

/// The clocks of a device on a stage: they run with the stage's, and its owner may set the wall clock or restart it.
final class StageClock: TrustedClock {
  private struct State: Sendable {
    var wall: TimeInterval = 0
    var boot = 1
    var bootedAt: TimeInterval
  }
  let stage: Stage
  private let state: Protected<State>

  init(_ stage: Stage) {
    self.stage = stage
    state = Protected(State(bootedAt: SystemClock().uptime().seconds + stage.shifted - 1))
  }

  func wall() -> Date { stage.now.addingTimeInterval(state.with { $0.wall }) }
  func uptime() -> Uptime {
    let seconds = SystemClock().uptime().seconds + stage.shifted
    return state.with { Uptime(boot: "boot-\($0.boot)", seconds: seconds - $0.bootedAt) }
  }
  func sleep(seconds: TimeInterval) async throws { try await SystemClock().sleep(seconds: seconds) }

  /// The owner sets the wall clock off by so many seconds.
  func setWall(offBy seconds: TimeInterval) { state.with { $0.wall = seconds } }
  func reboot() {
    let now = SystemClock().uptime().seconds + stage.shifted
    state.with {
      $0.boot += 1
      $0.bootedAt = now - 1
    }
  }
}

/// A network that a test cuts.
final class Network: Transport {
  enum Fault: Sendable { case none, offline, lostRequest, lostResponse, proxyPage }
  private let wire = URLSessionTransport(timeout: 20)
  let fault = Protected(Fault.none)
  /// Chooses a fault for each request.
  let chance = Protected<(@Sendable () -> Fault)?>(nil)

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    let (fault, chance) = (fault.with { $0 }, chance.with { $0 })
    switch fault == .none ? chance?() ?? .none : fault {
    case .none: return try await wire.send(request)
    case .offline, .lostRequest: throw URLError(.notConnectedToInternet)
    case .proxyPage: return TransportResponse(status: 502, body: Data("<html>Bad Gateway</html>".utf8))
    case .lostResponse:
      _ = try await wire.send(request)
      throw URLError(.networkConnectionLost)
    }
  }
}

/// A phone with an app on a stage. A launch after `kill` finds what the phone kept.
struct Phone {
  let stage: Stage
  let bundle: String
  let clock: StageClock
  let network = Network()
  let store = MemoryStore()
  let queues = MemoryStore()
  let users = Protected<UUID?>(nil)

  init(_ stage: Stage, _ bundle: String) {
    self.stage = stage
    self.bundle = bundle
    clock = StageClock(stage)
  }

  func launch<F: Codable & Sendable>(_ free: F) -> Receiptd<F> {
    var configuration = ReceiptdConfiguration(server: stage.address, bundleID: bundle)
    configuration.transport = network
    configuration.store = store
    configuration.queues = queues
    configuration.clock = clock
    let users = users
    return Receiptd(
      configuration, free: free, token: { _ in users.with { $0 }.map { Stage.accessToken($0) } })
  }
}
