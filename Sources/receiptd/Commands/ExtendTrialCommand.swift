import ArgumentParser
import ReceiptService

/// `receiptd extend-trial`
struct ExtendTrialCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "extend-trial", abstract: "Gives a trial more days, once.",
    discussion: "The days count from the end of the trial, or from now if it is over.")

  @Argument(help: "The id of the device.")
  var device: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(help: "The number of days to add.")
  var days: Int

  @Flag(help: "Also if the customer was never seen.")
  var force = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.extendTrial) { desk, author in
      try await desk.extendTrial(of: device, bundleID: bundle, days: days, by: author, isForced: force)
    }
  }
}
