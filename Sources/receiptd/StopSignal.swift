import Dispatch
import Glibc
import Synchronization

/// SIGTERM and SIGINT, which ask the process to stop in good order.
enum StopSignal {
  /// Waits for either.
  /// - Returns: its name.
  static func next() async -> String {
    let names = [SIGTERM: "SIGTERM", SIGINT: "SIGINT"]
    let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    let sources = names.map { number, name in
      // The default action would end the process before the source hears of it.
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler { continuation.yield(name) }
      source.resume()
      return source
    }
    defer { for source in sources { source.cancel() } }
    for await name in stream { return name }
    return "end"
  }
}
