import ArgumentParser
import FoundationEssentials
import Glibc
import HTTP
import Logging
import Postgres
import ReceiptService

/// What commands have in common before they do their work.
enum Startup {
  /// The database may be starting beside us; after this long it is not.
  private static let patience = Duration.seconds(60)

  static func settings() throws -> Settings {
    do {
      return try Settings(environment: ProcessInfo.processInfo.environment)
    } catch {
      throw failure("\(error)")
    }
  }

  static func service(_ settings: Settings, _ logger: Logger) async throws -> Service {
    do {
      return try await Service(settings: settings, logger: logger)
    } catch {
      throw failure("\(error)")
    }
  }

  static func logger(_ settings: Settings) -> Logger {
    let format: LogFormat = settings.logsAsJSON ?? (isatty(STDERR_FILENO) == 0) ? .json : .text
    let traces = Logger.MetadataProvider { TraceContext.current.map { ["trace": "\($0.traceID)"] } ?? [:] }
    var logger = Logger(label: "receiptd") { _ in
      LineLogHandler(format, to: .standardError, metadataProvider: traces)
    }
    logger.logLevel = settings.logLevel
    return logger
  }

  /// Applies pending migrations; waits for a database that is not there yet.
  static func migrate(_ migrator: Migrator, _ logger: Logger) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + patience
    while true {
      do {
        for entry in try await migrator.apply() {
          logger.info("applied a migration", metadata: ["migration": "\(entry.version)_\(entry.name)"])
        }
        return
      } catch let error as PostgresError where error.isUnavailable && clock.now < deadline {
        logger.warning("waiting for the database", metadata: ["reason": "\(error)"])
        try await Task.sleep(for: .seconds(1))
      } catch let error as PostgresError where error.isUnavailable {
        throw failure("DATABASE_URL: \(error)")
      } catch let error as MigrationError where error.report == nil {
        throw failure("RECEIPTD_MIGRATIONS: \(error)")
      } catch {
        throw failure("migrate: \(error)")
      }
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

  /// Says one line on standard error; the command then ends with status 1.
  static func failure(_ line: String) -> ExitCode {
    LogWriter.standardError.write(Array("receiptd: \(line)\n".utf8))
    return ExitCode.failure
  }
}
