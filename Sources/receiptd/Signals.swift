import Dispatch
import Glibc
import Synchronization

/// What the process is told from outside while it serves.
enum Signal: Sendable {
  /// SIGTERM or SIGINT: stop in good order.
  case stop(String)
  /// SIGHUP, or a file that has changed: read the configuration again.
  case reload(String)
}

/// Listens to signals and to changes of files, for as long as it lives.
final class Signals {
  /// What has come, in order. For one reader.
  let events: AsyncStream<Signal>
  private var sources: [any DispatchSourceProtocol] = []

  /// How often files are looked at. A change counts once they have stood still for as long.
  private static let period = DispatchTimeInterval.seconds(1)

  /// - Parameter files: whose changes ask for a reload.
  init(watching files: [String]) {
    let (events, continuation) = AsyncStream.makeStream(
      of: Signal.self, bufferingPolicy: .bufferingNewest(16))
    self.events = events
    let queue = DispatchQueue(label: "signals")
    let stopping = Stopping()
    for (number, name) in [(SIGTERM, "SIGTERM"), (SIGINT, "SIGINT")] {
      on(number, queue) {
        // Whoever says it twice does not want to wait.
        guard stopping.begins() else { _exit(128 + number) }
        continuation.yield(.stop(name))
      }
    }
    on(SIGHUP, queue) { continuation.yield(.reload("SIGHUP")) }
    watch(files, queue) { continuation.yield(.reload($0)) }
  }

  deinit {
    for source in sources { source.cancel() }
  }

  private final class Stopping: Sendable {
    private let hasBegun = Atomic(false)
    func begins() -> Bool { !hasBegun.exchange(true, ordering: .relaxed) }
  }

  private func on(_ number: Int32, _ queue: DispatchQueue, _ action: @escaping @Sendable () -> Void) {
    // The default action would end the process before the source hears of it.
    signal(number, SIG_IGN)
    let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
    source.setEventHandler(handler: action)
    source.resume()
    sources.append(source)
  }

  private func watch(
    _ files: [String], _ queue: DispatchQueue, _ action: @escaping @Sendable (String) -> Void
  ) {
    let watch = Watch(files)
    let timer = DispatchSource.makeTimerSource(queue: queue)
    timer.schedule(deadline: .now() + Self.period, repeating: Self.period, leeway: .milliseconds(100))
    timer.setEventHandler { watch.look().map(action) }
    timer.resume()
    sources.append(timer)
  }

  private final class Watch: Sendable {
    private let state: Mutex<FileWatch>
    init(_ files: [String]) { state = Mutex(FileWatch(files)) }
    func look() -> String? { state.withLock { $0.look() } }
  }
}
