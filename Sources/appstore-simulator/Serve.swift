import AppStore
import AppStoreSimulator
import ArgumentParser
import Dispatch
import Foundation

/// Runs the simulator until it is told to stop.
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Serve the App Store Server API and the control API.")

  @Option(help: "The address to listen on. The control API answers only to this machine.")
  var host = "127.0.0.1"

  @Option(help: "The port to listen on; 0 for any.")
  var port: UInt16 = 4000

  @Option(help: "The folder of the signing authority and the API key, made if it is not there.")
  var folder: String

  @Option(help: "Where notifications go, such as http://127.0.0.1:3000/api/v1/subscriptions/webhook.")
  var webhook: String?

  @Option(help: "The apps on sale: a file in the form of receiptd's config/apps.json.")
  var config: String?

  @Option(help: "The length of a month in seconds; the real calendar without it.")
  var monthSeconds: Double?

  @Option(help: "Where purchases take place that name no environment: Production or Sandbox.")
  var environment = "Production"

  @Option(help: "The store's time at the start, in RFC 3339; now without it.")
  var now: String?

  @Option(help: "Seconds of the store's time for each real one; 0 stands still.")
  var rate = 1.0

  @Flag(inversion: .prefixedNo, help: "Send notifications that failed again, on Apple's schedule.")
  var retries = true

  @Option(help: "What decides ids and faults by chance; another one each time without it.")
  var seed: UInt64?

  func validate() throws {
    guard rate >= 0, rate.isFinite else { throw ValidationError("--rate must be 0 or more.") }
    guard ["Production", "Sandbox"].contains(environment) else {
      throw ValidationError("--environment must be Production or Sandbox.")
    }
    if let monthSeconds, !(monthSeconds > 0 && monthSeconds.isFinite) {
      throw ValidationError("--month-seconds must be more than 0.")
    }
  }

  func run() async throws {
    let identity = try StoreIdentity.loadOrMake(in: URL(fileURLWithPath: folder))
    let start = try now.map { try Date($0, strategy: .iso8601) }
    let store = try SimulatedAppStore(
      identity: identity, apps: config.map { try CatalogFile.read(URL(fileURLWithPath: $0)) } ?? [],
      timeScale: TimeScale(monthSeconds: monthSeconds), webhook: webhook,
      seed: seed ?? .random(in: .min ... .max), clock: VirtualClock(startingAt: start, rate: rate),
      retries: retries)
    let server = try await SimulatorServer(
      store: store, host: host, port: port, environment: Environment(rawValue: environment))
    // Before the first line is printed, so that whoever reads it may send the signal at once.
    let stop = StopSignal()
    let address = try server.start()
    print("APP_STORE_URL='http://\(address)'")
    print("APP_STORE_SANDBOX_URL='http://\(address)/sandbox'")
    fflush(nil)
    await stop.wait()
    await server.shutdown()
  }
}

/// SIGINT or SIGTERM, taken as a request to stop.
private struct StopSignal {
  private let signals: AsyncStream<Void>
  private let sources: [any DispatchSourceSignal]

  init() {
    let (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    self.signals = signals
    sources = [SIGINT, SIGTERM].map { number in
      // Dispatch sees a signal only if its own action is not taken.
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number)
      source.setEventHandler { continuation.yield() }
      source.resume()
      return source
    }
  }

  func wait() async {
    for await _ in signals { break }
    for source in sources { source.cancel() }
  }
}
