import AppStore
import AppStoreSimulator
import ArgumentParser
import Dispatch
import Foundation

/// Runs the simulator until SIGINT or SIGTERM.
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Serve the App Store Server API and the control API.")

  @Option(help: "The address to listen on. The control API answers only to this machine.")
  var host = "127.0.0.1"

  @Option(help: "The port to listen on; 0 for any.")
  var port: UInt16 = 4000

  @Option(help: "The folder of the signing authority and the API key; created if missing.")
  var folder: String

  @Option(help: "The webhook for notifications, such as http://127.0.0.1:3000/api/v1/subscriptions/webhook.")
  var webhook: String?

  @Option(help: "The apps on sale: a file in the form of receiptd's config/apps.json.")
  var config: String?

  @Option(help: "The length of a month in seconds; the real calendar without it.")
  var monthSeconds: Double?

  @Option(help: "The environment of purchases that name none: Production or Sandbox.")
  var environment = "Production"

  @Option(help: "The store's time at the start, in RFC 3339; now without it.")
  var now: String?

  @Flag(inversion: .prefixedNo, help: "Send failed notifications again on Apple's schedule.")
  var retries = true

  @Option(help: "The seed of ids and random faults; random by default.")
  var seed: UInt64?

  func validate() throws {
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
      seed: seed ?? .random(in: .min ... .max), clock: VirtualClock(startingAt: start), retries: retries)
    let server = try await SimulatorServer(
      store: store, host: host, port: port, environment: Environment(rawValue: environment))
    // Installed before the first output, because a reader of it may send the signal at once.
    let stop = StopSignal()
    let address = try server.start()
    print("APP_STORE_URL='http://\(address)'")
    print("APP_STORE_SANDBOX_URL='http://\(address)/sandbox'")
    fflush(nil)
    await stop.wait()
    await server.shutdown()
  }
}

/// Waits for SIGINT or SIGTERM.
private struct StopSignal {
  private let signals: AsyncStream<Void>
  private let sources: [any DispatchSourceSignal]

  init() {
    let (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    self.signals = signals
    sources = [SIGINT, SIGTERM].map { number in
      // Dispatch receives a signal only if its default action is ignored.
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

/// Signs as StoreKit testing in Xcode does, until SIGINT or SIGTERM.
struct Xcode: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Sign like StoreKit testing in Xcode: one certificate, the environment Xcode, ids from 0.",
    discussion: """
      The control API is that of `serve`. Nothing is notified, and there is no Server API. A restart is a new run: its ids begin at 0 again, \
      and the certificate stays.
      """)

  @Option(help: "The port to listen on; 0 for any.")
  var port: UInt16 = 4000

  @Option(help: "The folder of the certificate xcode.cer; created if missing.")
  var folder: String

  @Option(help: "The apps on sale: a file in the form of receiptd's config/apps.json.")
  var config: String

  @Option(
    help:
      "The length of a month in seconds, as with the time rate of a StoreKit file; the real calendar without it."
  )
  var monthSeconds: Double?

  func validate() throws {
    if let monthSeconds, !(monthSeconds > 0 && monthSeconds.isFinite) {
      throw ValidationError("--month-seconds must be more than 0.")
    }
  }

  func run() async throws {
    let folder = URL(fileURLWithPath: folder)
    let store = try SimulatedAppStore(
      identity: StoreIdentity.loadOrMake(in: folder), apps: CatalogFile.read(URL(fileURLWithPath: config)),
      timeScale: TimeScale(monthSeconds: monthSeconds))
    let server = try await SimulatorServer(store: store, port: port, environment: .xcode)
    let stop = StopSignal()
    let address = try server.start()
    print("http://\(address) signs with \(folder.appendingPathComponent("xcode.cer").path)")
    fflush(nil)
    await stop.wait()
    await server.shutdown()
  }
}
