import ArgumentParser
import ReceiptService

/// `receiptd free-access`
struct FreeAccessCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "free-access",
    abstract: "Opens every feature of an app to everyone, or ends that.",
    discussion: """
      It takes effect with the next response of every server. Trials and the app's own grace pause while it is on, \
      and continue with the remaining time when it is off.
      """)

  enum Switch: String, ExpressibleByArgument, CaseIterable {
    case on, off
  }

  @Argument(help: "on or off.")
  var state: Switch

  @Option(help: "The app's bundle id.")
  var bundle: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.freeAccess) { desk, author in
      try await desk.setFreeAccess(state == .on, bundleID: bundle, by: author)
    }
  }
}
