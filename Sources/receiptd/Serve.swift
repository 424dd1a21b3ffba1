import ArgumentParser
import Dispatch
import FoundationEssentials
import Glibc
import HTTP
import Logging
import Postgres
import ReceiptService

/// `receiptd serve`
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs the server; applies pending migrations first.")

  @Flag(name: .customLong("no-migrate"), help: "Do not apply pending migrations.")
  var skipsMigrations = false

  /// What runs when the process is told to stop may take this long to end.
  private static let shutdownTime = Duration.seconds(10)

  func run() async throws {
    let settings = try Startup.settings()
    let logger = Startup.logger(settings)
    // A client or a database that goes away shall be an error of a write, not the end of the process.
    signal(SIGPIPE, SIG_IGN)

    let service = try await Startup.service(settings, logger)
    if !skipsMigrations { try await Startup.migrate(service.migrator, logger) }
    await service.loadEntitlementKeys()

    let requestLog = RequestLog(logger: logger)
    let clients = HTTPServer(
      configuration: HTTPServerConfiguration(host: settings.host, port: settings.port),
      router: service.clientRouter, logger: logger, onResponse: requestLog.record)
    let operators = HTTPServer(
      configuration: HTTPServerConfiguration(host: settings.adminHost, port: settings.adminPort),
      router: service.adminRouter, logger: logger)
    try Startup.listen(operators, "ADMIN_HOST and ADMIN_PORT", logger)
    try Startup.listen(clients, "HOST and PORT", logger)

    let jobs = Task { await service.runJobs() }
    let received = await StopSignal.next()
    logger.info("stopping", metadata: ["signal": "\(received)"])
    jobs.cancel()
    await clients.shutdown(within: Self.shutdownTime)
    await operators.shutdown(within: .seconds(1))
    await service.close()
    logger.info("stopped")
  }
}
