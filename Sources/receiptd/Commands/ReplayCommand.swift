import ArgumentParser
import Foundation
import Identifiers
import ReceiptService

/// `receiptd replay`
struct ReplayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Processes a kept notification again.",
    discussion: """
      A start or a reload replays waiting notifications that it may accept; support_waiting_notifications counts \
      them. The exit status is 1, with the reason, if the notification still waits.
      """)

  @Argument(
    help: "Apple's notificationUUID.",
    transform: { text in
      guard let uuid = UUID(rfc9562: text) else { throw ValidationError("\(text) is not a UUID.") }
      return uuid
    })
  var notificationUUID: UUID

  @Option(help: "The author of the replay, for the record.")
  var by = ProcessInfo.processInfo.environment["USER"] ?? "operator"

  @Option(help: "The reason for the replay, for the record.")
  var reason = "replayed by hand"

  func run() async throws {
    let settings = try Startup.settings()
    // A write to a closed connection must fail with an error and not end the process.
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
