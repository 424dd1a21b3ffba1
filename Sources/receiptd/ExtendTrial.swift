import ArgumentParser
import ReceiptService

/// `receiptd extend-trial`
struct ExtendTrial: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "extend-trial", abstract: "Gives a trial more days, once.",
    discussion: "The days count from the trial's end, or from now where it is over.")

  @Argument(help: "The device whose trial it is.")
  var device: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(help: "How many days more.")
  var days: Int

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform("extend-trial") { desk, author in
      try await desk.extendTrial(of: device, bundleID: bundle, days: days, by: author)
    }
  }
}
