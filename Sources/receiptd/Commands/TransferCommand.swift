import ArgumentParser
import ReceiptService

/// `receiptd transfer`
struct TransferCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transfer",
    abstract: "Gives a purchase to another customer.",
    discussion: """
      The former owner cannot claim it back by a proof, whatever the app's transfer policy is. Only another transfer \
      moves it, or an appAccountToken that the App Store had not signed before.
      """)

  @Argument(help: "The original transaction id of the purchase.")
  var originalTransactionID: String

  @Option(name: .customLong("to"), help: "The user's UUID or the device's id of the new owner.")
  var customer: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform("transfer") { desk, author in
      try await desk.transfer(originalTransactionID, to: customer, by: author)
    }
  }
}
