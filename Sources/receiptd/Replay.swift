import ArgumentParser
import FoundationEssentials
import Glibc
import Identifiers
import ReceiptService

/// `receiptd replay`
struct Replay: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Processes a kept notification again.",
    discussion: """
      Those that wait are processed again at a start that can make a difference; \
      support_waiting_notifications counts them. Ends with status 1, and the reason, if it still waits.
      """)

  @Argument(
    help: "Apple's notificationUUID.",
    transform: { text in
      guard let uuid = UUID(rfc9562: text) else { throw ValidationError("\(text) is not a UUID.") }
      return uuid
    })
  var notificationUUID: UUID

  @Option(help: "Who wants it; written down.")
  var by = ProcessInfo.processInfo.environment["USER"] ?? "operator"

  @Option(help: "Why; written down.")
  var reason = "replayed by hand"

  func run() async throws {
    let settings = try Startup.settings()
    // As in serve: a connection that goes away shall be an error, not the end of the process.
    signal(SIGPIPE, SIG_IGN)
    let service = try await Startup.service(settings, Startup.logger(settings))
    let result: ReplayResult
    do {
      result = try await service.replay(notificationUUID, by: by, reason: reason)
    } catch {
      await service.close()
      throw Startup.failure("replay: \(error)")
    }
    await service.close()
    let words = [result.outcome, result.failure?.description].compactMap(\.self)
    print("\(notificationUUID.uuidString.lowercased()): \(words.joined(separator: ": "))")
    if !result.isProcessed { throw ExitCode.failure }
  }
}
