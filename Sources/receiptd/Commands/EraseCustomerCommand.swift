import ArgumentParser
import ReceiptService

/// `receiptd erase-customer`
struct EraseCustomerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "erase-customer",
    abstract: "Erases a customer: identity and free text go, money and counts stay.",
    discussion: """
      It cannot be undone. A subscription goes on at the App Store until the customer cancels it. docs/privacy.md lists \
      what goes and what stays.
      """)

  @Argument(help: "The user's UUID or the device's id, as `receiptd find` prints it.")
  var customer: String

  @Option(help: "The app with this bundle id; needed if the id is a customer of several apps.")
  var bundle: String?

  @Flag(help: "Also if a subscription goes on at the App Store.")
  var force = false

  @Flag(help: "Count the rows of each table, and change nothing.")
  var dryRun = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.eraseCustomer) { desk, author in
      try await desk.eraseCustomer(
        customer, bundleID: bundle, by: author, isForced: force, isDryRun: dryRun)
    }
  }
}
