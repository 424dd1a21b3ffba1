import Dispatch
import Foundation
import Platform
import Synchronization

/// A request to stop or to reload, from a signal or a changed file.
enum Signal: Sendable {
  /// SIGTERM or SIGINT: stop gracefully.
  case stop(String)
  /// SIGHUP or a changed file: read the configuration again.
  case reload(String)
}

/// Watches signals and files until it is deinitialized.
final class Signals {
  /// The requests in order, for one reader.
  let events: AsyncStream<Signal>
  private var sources: [any DispatchSourceProtocol] = []

  /// The interval of file checks. A change is reported once the files have not changed for this long.
  private static let period = DispatchTimeInterval.seconds(1)

  /// - Parameter files: the files whose changes request a reload.
  init(watching files: [String]) {
    let (events, continuation) = AsyncStream.makeStream(
      of: Signal.self, bufferingPolicy: .bufferingNewest(16))
    self.events = events
    let queue = DispatchQueue(label: "signals")
    let stopping = Stopping()
    for (number, name) in [(SIGTERM, "SIGTERM"), (SIGINT, "SIGINT")] {
      on(number, queue) {
        // A second signal ends the process at once.
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
    // The default action would end the process before the source gets the signal.
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
    timer.setEventHandler { watch.check().map(action) }
    timer.resume()
    sources.append(timer)
  }

  private final class Watch: Sendable {
    private let state: Mutex<FileWatch>
    init(_ files: [String]) { state = Mutex(FileWatch(files)) }
    func check() -> String? { state.withLock { $0.check() } }
  }
}

/// Detects changed files by their status. That works on every file system, and for symbolic links, by which
/// orchestrators replace files.
struct FileWatch {
  private let paths: [String]
  private let read: @Sendable (String) -> FileStatus?
  /// The status at the last report, or at the start.
  private var known: [FileStatus?]
  /// The status at the last check.
  private var seen: [FileStatus?]

  /// - Parameter read: reads a file's status; tests pass their own.
  init(_ paths: [String], read: @escaping @Sendable (String) -> FileStatus? = { Platform.fileStatus($0) }) {
    self.paths = paths
    self.read = read
    known = paths.map(read)
    seen = known
  }

  /// Checks once.
  /// - Returns: a changed file, once no file has changed since the last check: its writer has finished then.
  mutating func check() -> String? {
    let now = paths.map(read)
    defer { seen = now }
    guard now == seen, now != known else { return nil }
    let changed = zip(paths, zip(now, known)).first { $1.0 != $1.1 }?.0
    known = now
    return changed
  }
}
