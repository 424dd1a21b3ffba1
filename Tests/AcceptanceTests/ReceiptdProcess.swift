import Curl
import Foundation
import HTTPTypes
import Synchronization
import TestProcess
import Testing

/// `receiptd serve` as a process of its own.
final class ReceiptdProcess: Sendable {
  let port: Int
  let adminPort: Int
  private let process: RunningProcess
  private let log: URL
  private let environment: [String: String]

  /// - Parameters:
  ///   - environment: settings besides the ports.
  ///   - ports: the ports to listen on; `nil` chooses free ones.
  init(environment: [String: String], log: URL, ports: (clients: Int, operators: Int)? = nil) throws {
    port = try ports?.clients ?? freePort()
    adminPort = try ports?.operators ?? freePort()
    self.log = log
    self.environment = environment
    try Data().write(to: log)
    let environment = environment.merging(
      [
        "PORT": "\(port)", "ADMIN_PORT": "\(adminPort)", "LOG_FORMAT": "json", "LOG_LEVEL": "debug",
        "RATE_LIMIT": "off",
      ]
    ) { given, _ in given }
    process = try Command(Self.executable.path, ["serve"], environment: environment)
      .start(complaint: log.path)
  }

  /// Another start with the same settings and an empty log.
  func another() throws -> ReceiptdProcess { try ReceiptdProcess(environment: environment, log: log) }

  /// Runs another command with the same settings.
  func run(_ command: String) async throws -> Command.Result {
    try await Command(Self.executable.path, [command], environment: environment).run()
  }

  /// The process did not become ready, or did not log a line, within two minutes.
  private struct Silence: Error {
    let of: String
    let log: String
  }

  /// Kills the process, so that a failed test leaves none.
  deinit { process.signal(SIGKILL) }

  /// Waits until the process is ready.
  func awaitReady(_ client: CurlClient) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + .seconds(120)
    while clock.now < deadline {
      let answer = try? await client.send(CurlRequest(url: "http://127.0.0.1:\(adminPort)/readyz"))
      if answer?.status == 200 { return }
      try #require(process.isRunning, "receiptd ended: \(logText)")
      try await Task.sleep(for: .milliseconds(20))
    }
    throw Silence(of: "that it is ready", log: logText)
  }

  /// Sends SIGTERM and waits for the end.
  /// - Returns: the exit status.
  func stop() async -> Int32 {
    process.signal(SIGTERM)
    return await process.exitStatus()
  }

  /// Whether the process runs.
  var isRunning: Bool { process.isRunning }

  /// Sends a signal.
  func signal(_ number: Int32) { process.signal(number) }

  /// Waits for the end of the process.
  /// - Returns: the exit status.
  func exitStatus() async -> Int32 { await process.exitStatus() }

  /// Waits until the log has this text this many times.
  func awaitLog(_ text: String, times: Int = 1) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + .seconds(120)
    while clock.now < deadline {
      if logText.components(separatedBy: text).count > times { return }
      try #require(process.isRunning, "receiptd ended: \(logText)")
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Silence(of: "'\(text)' \(times) times", log: logText)
  }

  /// Sends SIGKILL.
  func kill() async {
    process.signal(SIGKILL)
    _ = await process.exitStatus()
  }

  var logText: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

  /// The executable beside the test bundle.
  static let executable =
    Bundle.allBundles.map(\.bundleURL)
    .first { $0.pathExtension == "xctest" }?.deletingLastPathComponent().appending(path: "receiptd")
    ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "receiptd")
}

/// A port that nothing listens on at this moment, and that no other call of this process returns.
///
/// It lies below the kernel's ephemeral ports, so no outgoing connection takes it before the server listens.
func freePort() throws -> Int {
  for _ in 0..<1000 {
    let (place, _) = portsHandedOut.add(1, ordering: .relaxed)
    let port = 10_000 + place % 20_000
    if try isFree(port) { return port }
  }
  throw NoFreePort()
}

/// Begins at random, so two runs of the tests rarely meet.
private let portsHandedOut = Atomic(Int.random(in: 0..<20_000))

private struct NoFreePort: Error {}

private func isFree(_ port: Int) throws -> Bool {
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  try #require(descriptor >= 0)
  defer { close(descriptor) }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = UInt16(port).bigEndian
  address.sin_addr.s_addr = inet_addr("127.0.0.1")
  return withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
      bind(descriptor, generic, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
    }
  }
}
