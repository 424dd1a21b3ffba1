import ArgumentParser
import ReceiptService

/// `receiptd grant`
struct GrantCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grant",
    abstract: "Gives a customer access for a time.",
    discussion: "Two grants do not add up: access lasts until the later end.")

  @Argument(help: "The user's UUID, or the device's id in an app whose customers are devices.")
  var customer: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(help: "The tier of the grant.")
  var tier: String

  @Option(help: "The number of days from now.")
  var days: Int

  @Flag(help: "Also if the customer was never seen.")
  var force = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.grant) { desk, author in
      try await desk.grant(
        to: customer, bundleID: bundle, tier: tier, days: days, by: author, isForced: force)
    }
  }
}
