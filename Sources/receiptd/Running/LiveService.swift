import HTTP
import Logging
import ReceiptService

/// The current service with its servers and jobs. A reload replaces the service.
actor LiveService {
  private var service: Service
  private var jobs: RunningJobs?
  private let clients: HTTPServer
  private let operators: HTTPServer
  private let logger: Logger

  /// The time that running requests and jobs have to end when the process stops.
  private static let shutdownTime = Duration.seconds(10)

  init(_ service: Service, clients: HTTPServer, operators: HTTPServer, logger: Logger) {
    self.service = service
    self.clients = clients
    self.operators = operators
    self.logger = logger
  }

  /// Starts the background jobs.
  func startJobs() {
    let service = service
    jobs = RunningJobs { await service.runJobs() }
  }

  /// Reads the configuration and the roots again. If they are invalid, the current service stays.
  func reload(because reason: String) async {
    let former = service
    do {
      let next = try await former.reloaded()
      try await next.checkXcode()
      service = next
    } catch {
      logger.error(
        "the configuration was not reloaded; the former one stays in use",
        metadata: ["cause": "\(reason)", "reason": "\(error)"])
      return
    }
    await clients.replaceRouter(service.clientRouter)
    await operators.replaceRouter(service.adminRouter)
    await stopJobs()
    await former.retire()
    startJobs()
    logger.notice(
      "reloaded the configuration",
      metadata: ["cause": "\(reason)", "digest": "\(service.configurationDigest)"])
  }

  /// Stops gracefully: reports that it is not ready, waits for the drain delay, stops accepting connections, waits for
  /// running requests and jobs, and closes the service.
  func stop(drainDelay: Duration) async {
    service.drain()
    try? await Task.sleep(for: drainDelay)
    clients.stopAccepting()
    async let jobsStopped: Void = stopJobs()
    await clients.shutdown(within: Self.shutdownTime)
    await jobsStopped
    await operators.shutdown(within: .seconds(1))
    await service.close()
  }

  private func stopJobs() async {
    let stopping = jobs
    jobs = nil
    if await stopping?.stop(within: Self.shutdownTime) == false {
      logger.error("a job did not stop in time; the process continues without waiting for it")
    }
  }
}

/// A task that runs the background jobs until it is stopped.
struct RunningJobs: Sendable {
  private let task: Task<Void, Never>

  /// Starts the work, which must end when its task is cancelled.
  init(_ work: @escaping @Sendable () async -> Void) {
    task = Task { await work() }
  }

  /// Cancels the task and waits for its end, but no longer than the timeout: a job that hangs must not keep the process
  /// from stopping.
  ///
  /// - Returns: whether the task ended.
  func stop(within timeout: Duration) async -> Bool {
    task.cancel()
    let (ends, continuation) = AsyncStream.makeStream(of: Bool.self)
    let timer = Task {
      try? await Task.sleep(for: timeout)
      continuation.yield(false)
    }
    defer { timer.cancel() }
    Task {
      await task.value
      continuation.yield(true)
    }
    return await ends.first { _ in true } ?? false
  }
}
