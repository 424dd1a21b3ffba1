import ArgumentParser
import ReceiptService

/// `receiptd transfer`
struct TransferCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transfer",
    abstract: "Gives one purchase to another customer, and shows both before and after.",
    discussion: """
      The former owner cannot claim it back by a proof, whatever the app's transfer policy is. Only another transfer \
      moves it, or an appAccountToken that the App Store had not signed before.
      """)

  @Argument(help: "The original transaction id of the purchase.")
  var originalTransactionID: String

  @Option(name: .customLong("to"), help: "The user's UUID or the device's id of the new owner.")
  var customer: String

  @Flag(help: "Also if the customer was never seen.")
  var force = false

  @Flag(help: "Show both customers before and after, and change nothing.")
  var dryRun = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.transfer) { desk, author in
      try await desk.transfer(
        originalTransactionID, to: customer, by: author, isForced: force, isDryRun: dryRun)
    }
  }
}
