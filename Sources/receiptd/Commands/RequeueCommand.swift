import ArgumentParser
import ReceiptService

/// `receiptd requeue`
struct RequeueCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "requeue",
    abstract: "Delivers a customer's state again to CloudKit or a webhook.",
    discussion: """
      It sends the customer's current state, and reopens a disabled destination. support_outbox lists the \
      deliveries that wait and those that were given up.
      """)

  @Argument(help: "The id of a delivery in support_outbox.")
  var id: Int64?

  @Option(help: "Or an app's bundle id, for all its deliveries that were given up.")
  var bundle: String?

  @OptionGroup var options: SupportOptions

  func validate() throws {
    if (id == nil) == (bundle == nil) { throw ValidationError("Give the id of a delivery, or --bundle.") }
  }

  func run() async throws {
    try await options.performWithService(.requeue, warningAbout: [.deliveries]) { service, author in
      if let id { return try await service.requeue(id, by: author) }
      return try await service.requeueDead(of: bundle ?? "", by: author)
    }
  }
}
