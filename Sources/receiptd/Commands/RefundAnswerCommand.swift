import ArgumentParser
import ReceiptService

/// `receiptd refund-answer`
struct RefundAnswerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "refund-answer",
    abstract: "Sets what the App Store is told when a customer requests a refund.",
    discussion: """
      It replaces the app's refundAnswers for this customer or purchase, also for a request that waits for its answer. \
      Nothing is sent without the customer's consent, and an answer that was sent cannot be changed.
      """)

  @Argument(help: "The user's UUID, the device's id, or a transaction id of the purchase.")
  var id: String

  @Option(help: "grant, decline, or none for facts without a preference.")
  var prefer: RefundChoice

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.refundAnswer) { desk, author in
      try await desk.preferRefund(prefer, for: id, bundleID: bundle, by: author)
    }
  }
}

extension RefundChoice: ExpressibleByArgument {}
