import ArgumentParser
import ReceiptService

/// `receiptd free-access`
struct FreeAccess: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "free-access",
    abstract: "Asks nobody of an app for a subscription, or asks again.",
    discussion: """
      Every server's next answer follows. Trials and the app's own grace stand still while it is on: what was \
      left of them is left when it is off.
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
    try await options.perform("free-access") { desk, author in
      try await desk.setFreeAccess(state == .on, bundleID: bundle, by: author)
    }
  }
}
