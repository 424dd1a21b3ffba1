import ArgumentParser
import ReceiptService

/// `receiptd requeue`
struct Requeue: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Delivers a customer's state again to CloudKit or a webhook.",
    discussion: """
      What is sent is the customer's state of the moment. A place that was closed is opened again. \
      support_outbox lists what waits and what was given up.
      """)

  @Argument(help: "The id of one delivery, as support_outbox shows it.")
  var id: Int64?

  @Option(help: "Or an app's bundle id: everything of it that was given up.")
  var bundle: String?

  @OptionGroup var options: SupportOptions

  func validate() throws {
    if (id == nil) == (bundle == nil) { throw ValidationError("Give the id of a delivery, or --bundle.") }
  }

  func run() async throws {
    try await options.performing("requeue") { service, author in
      if let id { return try await service.requeue(id, by: author) }
      return try await service.requeueDead(of: bundle ?? "", by: author)
    }
  }
}
