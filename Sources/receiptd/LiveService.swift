import HTTP
import Logging
import ReceiptService

/// The service that answers now, its servers and its jobs, and how another one takes its place.
actor LiveService {
  private var service: Service
  private var jobs: RunningJobs?
  private let clients: HTTPServer
  private let operators: HTTPServer
  private let logger: Logger

  /// What runs when the process is told to stop may take this long to end.
  private static let shutdownTime = Duration.seconds(10)

  init(_ service: Service, clients: HTTPServer, operators: HTTPServer, logger: Logger) {
    self.service = service
    self.clients = clients
    self.operators = operators
    self.logger = logger
  }

  /// Begins what has to be done without anybody asking.
  func startJobs() {
    let service = service
    jobs = RunningJobs { await service.runJobs() }
  }

  /// Reads the configuration and the roots again. If they cannot be used, all stays as it is.
  func reload(because reason: String) async {
    let former = service
    do {
      service = try await former.reloaded()
    } catch {
      logger.error(
        "the configuration was not reloaded; the one before stays in force",
        metadata: ["cause": "\(reason)", "reason": "\(error)"])
      return
    }
    await clients.replaceRouter(service.clientRouter)
    await operators.replaceRouter(service.adminRouter)
    await endJobs()
    await former.retire()
    startJobs()
    logger.notice("reloaded the configuration", metadata: ["cause": "\(reason)"])
  }

  /// Says that it is not ready, waits for that to be noticed, and ends: first what comes in, then what is under way,
  /// then what that needs.
  func stop(drainDelay: Duration) async {
    service.drain()
    try? await Task.sleep(for: drainDelay)
    clients.stopAccepting()
    async let jobsEnd: Void = endJobs()
    await clients.shutdown(within: Self.shutdownTime)
    await jobsEnd
    await operators.shutdown(within: .seconds(1))
    await service.close()
  }

  private func endJobs() async {
    let ending = jobs
    jobs = nil
    if await ending?.end(within: Self.shutdownTime) == false {
      logger.error("a job did not end when it was told to; it is left behind")
    }
  }
}
