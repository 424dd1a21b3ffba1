import Actions
import ArgumentParser
import Configuration
import Customers
import Dispatch
import Foundation
import HTTP
import Logging
import Postgres
import ReceiptService
import Sockets
import Text

/// The commands of who runs the server.
enum ServerCommands {
  static let all: [any ParsableCommand.Type] = [
    ServeCommand.self, MigrateCommand.self, DoctorCommand.self, RotateEntitlementKeyCommand.self,
    VersionCommand.self,
  ]
}

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
    try await Startup.checkXcode(service, waits: !skipsMigrations, logger)
    await service.loadEntitlementKeys()

    var clientConfiguration = HTTPServerConfiguration(host: settings.host, port: settings.port)
    clientConfiguration.trustedProxies = settings.trustedProxies
    let clients = server("clients", clientConfiguration, service.clientRouter, service, logger)
    var adminConfiguration = HTTPServerConfiguration(host: settings.adminHost, port: settings.adminPort)
    adminConfiguration.trustedProxies = settings.trustedProxies
    let operators = server("operators", adminConfiguration, service.adminRouter, service, logger)
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

/// `receiptd migrate`
struct MigrateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate",
    abstract: "Applies pending migrations.",
    discussion: """
      Any number of processes may run this at once. It waits up to a minute for a database that is starting.
      """)

  @Flag(help: "List all migrations with their state, and change nothing.")
  var status = false

  @Flag(
    help: """
      Apply pending migrations in one transaction and roll them back, as a test. It holds its locks to the end, so try it on \
      a copy of a database that is in use.
      """)
  var dryRun = false

  func validate() throws {
    if status && dryRun { throw ValidationError("--status and --dry-run exclude each other.") }
  }

  func run() async throws {
    let settings = try Startup.settings()
    let logger = Startup.logger(settings)
    try await Startup.checkPooler(settings, waits: true, logger)
    let pool = PostgresPool(configuration: settings.database, logger: logger)
    do {
      try await work(Migrator(pool: pool, folder: settings.migrationsFolder, logger: logger), logger)
    } catch {
      await pool.close()
      throw error
    }
    await pool.close()
  }

  private func work(_ migrator: Migrator, _ logger: Logger) async throws {
    if status {
      for entry in try await Startup.withMigrations(logger, { try await migrator.status() }) {
        print(Self.line(entry))
      }
    } else if dryRun {
      report(try await Startup.withMigrations(logger) { try await migrator.dryRun() }, "would be applied")
    } else {
      report(try await Startup.withMigrations(logger) { try await migrator.apply() }, "applied")
    }
  }

  private func report(_ entries: [MigrationEntry], _ verb: String) {
    if entries.isEmpty { print("nothing to do") }
    for entry in entries { print("\(entry.version)_\(entry.name): \(verb)") }
  }

  private static func line(_ entry: MigrationEntry) -> String {
    let state =
      switch entry.state {
      case .pending: "pending"
      case .applied(let date): "applied \(RFC3339.string(from: date))"
      case .unknown(let date):
        "applied \(RFC3339.string(from: date)), by a newer version; the file is missing here"
      case .removed(let date):
        "applied \(RFC3339.string(from: date)), before the migrations were folded; the file is missing here"
      case .changed(let date): "applied \(RFC3339.string(from: date)), but THE FILE HAS BEEN EDITED SINCE"
      }
    return "\(entry.version)_\(entry.name): \(state)"
  }
}

/// `receiptd doctor`
struct DoctorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Checks configuration, roots, database, clock and credentials.",
    discussion: "Prints a line for each check, with the remedy. The exit status is 0 only if all checks pass."
  )

  func run() async throws {
    let doctor = ReceiptService.Doctor(environment: ProcessInfo.processInfo.environment)
    let isOK = await doctor.check { result in
      print(result.line.wrappedForTerminal())
      // Flush each line, because the next check may take long and the output may be a pipe.
      fflush(nil)
    }
    if !isOK { throw ExitCode.failure }
  }
}

/// `receiptd rotate-entitlement-key`
struct RotateEntitlementKeyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate-entitlement-key", abstract: "Creates a new key for entitlement tokens.",
    discussion: """
      Every server publishes the key within about a minute and signs with it an hour later. Tokens of the old key \
      stay valid until they expire.
      """)

  @Flag(
    help: "The old key may be known to others: sign with the new key at once and withdraw the old ones.")
  var leaked = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(RotateEntitlementKeyRequest(leaked: leaked))
  }
}
