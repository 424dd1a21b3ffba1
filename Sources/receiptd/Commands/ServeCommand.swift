import ArgumentParser
import Configuration
import Dispatch
import Foundation
import HTTP
import Logging
import Postgres
import ReceiptService
import Sockets

/// `receiptd serve`
struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve",
    abstract: "Runs the server; applies pending migrations first.")

  @Flag(name: .customLong("no-migrate"), help: "Do not apply pending migrations.")
  var skipsMigrations = false

  func run() async throws {
    let settings = try Startup.settings()
    let logger = Startup.logger(settings)
    // A write to a closed connection must fail with an error and not end the process.
    signal(SIGPIPE, SIG_IGN)
    // The default action ends the process. The handler is set once a configuration is loaded.
    signal(SIGHUP, SIG_IGN)
    DescriptorLimit.raise()

    let service = try await Startup.service(settings, logger, warningAbout: ConfigurationUse.all)
    service.metrics.watchLog { LogWriter.standardError.lostLines }
    try await Startup.checkPooler(settings, waits: !skipsMigrations, logger)
    if !skipsMigrations { try await Startup.migrate(service.migrator, logger) }
    await service.loadEntitlementKeys()

    var clientConfiguration = HTTPServerConfiguration(host: settings.host, port: settings.port)
    clientConfiguration.trustedProxies = settings.trustedProxies
    let clients = server("clients", clientConfiguration, service.clientRouter, service, logger)
    let operators = server(
      "operators", HTTPServerConfiguration(host: settings.adminHost, port: settings.adminPort),
      service.adminRouter, service, logger)
    try Startup.listen(operators, "ADMIN_HOST and ADMIN_PORT", logger)
    try Startup.listen(clients, "HOST and PORT", logger)
    logger.info("uses the configuration", metadata: ["digest": "\(service.configurationDigest)"])

    let live = LiveService(service, clients: clients, operators: operators, logger: logger)
    await live.startJobs()
    let manager = ServiceManager(socket: ProcessInfo.processInfo.environment["NOTIFY_SOCKET"])
    let signals = Signals(watching: settings.reloadableFiles)
    manager.send(.ready)
    let watchdog = Watchdog(ProcessInfo.processInfo.environment).map { watchdog in
      Task { await watchdog.keepAlive(manager, clients, operators) }
    }
    defer { watchdog?.cancel() }
    for await event in signals.events {
      switch event {
      case .reload(let cause):
        manager.send(.reloading)
        await live.reload(because: cause)
        manager.send(.ready)
      case .stop(let name):
        manager.send(.stopping)
        logger.info("stopping", metadata: ["signal": "\(name)"])
        await live.stop(drainDelay: settings.drainDelay)
        logger.info("stopped")
        return
      }
    }
  }

  /// Creates a server whose responses are logged and counted.
  private func server(
    _ name: String, _ configuration: HTTPServerConfiguration, _ router: Router, _ service: Service,
    _ logger: Logger
  ) -> HTTPServer {
    let log = RequestLog(logger: logger)
    let metrics = service.metrics.requests(of: router, server: name)
    let server = HTTPServer(configuration: configuration, router: router, logger: logger) { summary in
      metrics.record(summary)
      log.record(summary)
    }
    service.metrics.watch(server, named: name)
    return server
  }
}
