import ArgumentParser
import Configuration
import Foundation
import HTTP
import Logging
import Postgres
import ReceiptService
import Text

/// The steps that commands share before their work.
enum Startup {
  /// For how long to wait for a database that is starting.
  private static let timeout = Duration.seconds(60)

  static func settings() throws -> Settings {
    do {
      return try Settings(environment: ProcessInfo.processInfo.environment)
    } catch {
      throw failure("\(error)")
    }
  }

  /// - Parameter uses: the parts of the configuration whose warnings are logged.
  static func service(
    _ settings: Settings, _ logger: Logger, warningAbout uses: Set<ConfigurationUse> = []
  ) async throws -> Service {
    do {
      return try await Service(settings: settings, logger: logger, warningAbout: uses)
    } catch {
      throw failure("\(error)")
    }
  }

  static func logger(_ settings: Settings) -> Logger {
    let format: LogFormat = settings.logsAsJSON ?? (isatty(STDERR_FILENO) == 0) ? .json : .text
    let traces = Logger.MetadataProvider {
      guard let trace = TraceContext.current else { return [:] }
      var metadata: Logger.Metadata = ["trace": "\(trace.traceID)"]
      if let request = trace.requestID { metadata["request"] = "\(request)" }
      return metadata
    }
    var logger = Logger(label: "receiptd") { _ in
      LineLogHandler(format, to: .standardError, metadataProvider: traces)
    }
    logger.logLevel = settings.logLevel
    return logger
  }

  /// Stops the start if `DATABASE_POOLER` does not match the pooler in use.
  /// - Parameter waits: whether to wait for an unavailable database. If not, the start continues without the check.
  static func checkPooler(_ settings: Settings, waits: Bool, _ logger: Logger) async throws {
    let mismatch: Settings.PoolerMismatch?
    do {
      mismatch = try await withDatabase(timeout: waits ? timeout : .zero, logger) {
        try await settings.findPoolerMismatch()
      }
    } catch let error as PostgresError where !waits {
      logger.warning("cannot check whether DATABASE_URL leads to a pooler", metadata: ["reason": "\(error)"])
      return
    } catch let error as PostgresError {
      throw failure("DATABASE_URL: \(error)")
    }
    guard let mismatch else { return }
    let line = "\(mismatch.message); \(mismatch.remedy)"
    if mismatch.isFatal { throw failure("DATABASE_POOLER: \(line)") }
    logger.warning("\(line)", metadata: ["setting": "DATABASE_POOLER"])
  }

  /// Stops the start of a server that accepts data of Xcode while its database has real purchases.
  /// - Parameter waits: whether to wait for an unavailable database. If not, the start fails: what the database has is
  ///   not known.
  static func checkXcode(_ service: Service, waits: Bool, _ logger: Logger) async throws {
    do {
      try await withDatabase(timeout: waits ? timeout : .zero, logger) { try await service.checkXcode() }
    } catch let error as PostgresError {
      throw failure("DATABASE_URL: \(error)")
    } catch let error as ConfigurationProblem {
      throw failure("\(error)")
    }
  }

  /// Runs `body`, and again each second while the database is unavailable, until the timeout ends.
  private static func withDatabase<R: Sendable>(
    timeout: Duration = timeout, _ logger: Logger, _ body: () async throws -> R
  ) async throws -> R {
    let clock = ContinuousClock()
    let deadline = clock.now + timeout
    while true {
      do {
        return try await body()
      } catch let error as PostgresError where error.isUnavailable && clock.now < deadline {
        logger.warning("waiting for the database", metadata: ["reason": "\(error)"])
        try await Task.sleep(for: .seconds(1))
      }
    }
  }

  /// Applies pending migrations, and logs each.
  static func migrate(_ migrator: Migrator, _ logger: Logger) async throws {
    for entry in try await withMigrations(logger, { try await migrator.apply() }) {
      logger.info("applied a migration", metadata: ["migration": "\(entry.version)_\(entry.name)"])
    }
  }

  /// Applies or lists migrations; waits for an unavailable database.
  static func withMigrations<R: Sendable>(
    _ logger: Logger, _ body: () async throws -> R
  ) async throws -> R {
    do {
      return try await withDatabase(logger, body)
    } catch let error as PostgresError where error.isUnavailable {
      throw failure("DATABASE_URL: \(error)")
    } catch let error as MigrationError where error.report == nil {
      throw failure("RECEIPTD_MIGRATIONS: \(error)")
    } catch {
      throw failure("migrate: \(error)")
    }
  }

  static func listen(_ server: HTTPServer, _ settings: String, _ logger: Logger) throws {
    do {
      let address = try server.start()
      logger.info("listening", metadata: ["address": "\(address)"])
    } catch {
      throw failure("\(settings): cannot listen: \(error)")
    }
  }

  /// Writes an error to standard error. The exit status of the command becomes 1.
  static func failure(_ error: String) -> ExitCode {
    // An error may quote an id that a client chose.
    let lines = error.split(separator: "\n", omittingEmptySubsequences: false).map { String($0).shown }
    LogWriter.standardError.append(Array("receiptd: \(lines.joined(separator: "\n"))\n".utf8))
    return ExitCode.failure
  }
}
