import ArgumentParser
import ReceiptService

/// `receiptd transfer`
struct Transfer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Gives a purchase to another customer.",
    discussion: """
      The former owner's app cannot prove it back, whatever the app's transfer policy; only another transfer \
      does, or an appAccountToken that the App Store had not signed before.
      """)

  @Argument(help: "The purchase.")
  var originalTransactionID: String

  @Option(name: .customLong("to"), help: "The user's UUID or the device's id that shall have it.")
  var customer: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform("transfer") { desk, author in
      try await desk.transfer(originalTransactionID, to: customer, by: author)
    }
  }
}
