import ArgumentParser
import ReceiptService

/// `receiptd grant`
struct Grant: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Gives a customer access for a time.",
    discussion: "Given twice, it holds until the later end: nothing adds up.")

  @Argument(help: "The user's UUID or the device's id, whichever the app's customers are.")
  var customer: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(help: "The tier to open.")
  var tier: String

  @Option(help: "For how many days, from now.")
  var days: Int

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform("grant") { desk, author in
      try await desk.grant(to: customer, bundleID: bundle, tier: tier, days: days, by: author)
    }
  }
}
