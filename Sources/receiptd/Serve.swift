import ArgumentParser
import Dispatch
import FoundationEssentials
import Glibc
import HTTP
import Logging
import Postgres
import ReceiptService
import Sockets

/// `receiptd serve`
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs the server; applies pending migrations first.")

  @Flag(name: .customLong("no-migrate"), help: "Do not apply pending migrations.")
  var skipsMigrations = false

  func run() async throws {
    let settings = try Startup.settings()
    let logger = Startup.logger(settings)
    // A client or a database that goes away shall be an error of a write, not the end of the process.
    signal(SIGPIPE, SIG_IGN)
    // Until there is something to reload, it asks for nothing; its default action would end the process.
    signal(SIGHUP, SIG_IGN)
    DescriptorLimit.raise()

    let service = try await Startup.service(settings, logger)
    if !skipsMigrations { try await Startup.migrate(service.migrator, logger) }
    await service.loadEntitlementKeys()

    let requestLog = RequestLog(logger: logger)
    var front = HTTPServerConfiguration(host: settings.host, port: settings.port)
    front.trustedProxies = settings.trustedProxies
    let clients = HTTPServer(
      configuration: front, router: service.clientRouter, logger: logger, onResponse: requestLog.record)
    let operators = HTTPServer(
      configuration: HTTPServerConfiguration(host: settings.adminHost, port: settings.adminPort),
      router: service.adminRouter, logger: logger)
    try Startup.listen(operators, "ADMIN_HOST and ADMIN_PORT", logger)
    try Startup.listen(clients, "HOST and PORT", logger)

    let live = LiveService(service, clients: clients, operators: operators, logger: logger)
    await live.startJobs()
    let signals = Signals(watching: settings.reloadableFiles)
    for await event in signals.events {
      switch event {
      case .reload(let cause): await live.reload(because: cause)
      case .stop(let name):
        logger.info("stopping", metadata: ["signal": "\(name)"])
        await live.stop(drainDelay: settings.drainDelay)
        logger.info("stopped")
        return
      }
    }
  }
}
