import Actions
import ArgumentParser
import Deliveries
import Foundation
import ReceiptService
import Support
import Text

/// The commands that call the App Store.
enum StoreCallCommands {
  static let all: [any ParsableCommand.Type] = [
    ExtendRenewalCommand.self, RefundAnswerCommand.self,
  ]
}

/// `receiptd extend-renewal`
struct ExtendRenewalCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "extend-renewal",
    abstract:
      "Moves the renewal date of a subscription, or of all subscribers of a product, by up to 90 days.",
    discussion: """
      The App Store extends paid, active subscriptions, each at most twice within 365 days, and tells the customers. \
      With --all it may need hours or days: the server follows it, and --status shows it. A command that was \
      stopped is repeated with the same options, and extends once.
      """)

  @Argument(help: "The original transaction id of the subscription.")
  var originalTransactionID: String?

  @Flag(help: "Extend all active subscribers of --product.")
  var all = false

  @Option(help: "With --all: the App Store's product id.")
  var product: String?

  @Option(help: "With --all: only these storefronts, such as USA,DEU.")
  var storefronts: String?

  @Option(help: "With --all: the app's bundle id, if several apps sell the product.")
  var bundle: String?

  @Flag(help: "With --all: the sandbox in place of production.")
  var sandbox = false

  @Flag(help: "Extend again what was extended within a day.")
  var force = false

  @Option(help: "The number of days, 1 to 90.")
  var days: Int?

  @Option(help: "Apple's reason: 0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage.")
  var reasonCode: Int?

  @Flag(help: "Show what would be asked, and ask nothing.")
  var dryRun = false

  @Option(help: ArgumentHelp("Show the state of an extension with --all.", valueName: "request-identifier"))
  var status: String?

  @Option(help: "The reason for the action, for the record.")
  var reason: String?

  @OptionGroup var author: AuthorOptions

  /// For how long the command follows an extension of all subscribers.
  private static let seconds = 20

  func validate() throws {
    if let status {
      guard UUID(uuidString: status) != nil else { throw ValidationError("--status must be a UUID.") }
      return
    }
    guard days != nil, reasonCode != nil, reason != nil else {
      throw ValidationError("--days, --reason-code and --reason are needed.")
    }
    try author.requireName()
    guard all == (product != nil), all != (originalTransactionID != nil) else {
      throw ValidationError("Give an original transaction id, or --all with --product.")
    }
    if !all, storefronts != nil || bundle != nil || sandbox {
      throw ValidationError("--storefronts, --bundle and --sandbox are for --all.")
    }
  }

  func run() async throws {
    try await Startup.withService(.extendRenewal) { service, actor in
      do {
        print("\(try await perform(service, actor))".wrappedForTerminal())
      } catch {
        throw Startup.failure("extend-renewal: \(Startup.sentence(error))")
      }
    }
  }

  private func perform(_ service: Service, _ actor: SupportActor?) async throws -> RenewalExtension {
    let extensions = service.support.renewalExtensions
    if let status, let identifier = UUID(uuidString: status) {
      return try await extensions.refreshed(identifier)
    }
    let author = try await author.author(actor, reason ?? "", in: service)
    let (days, code) = (days ?? 0, reasonCode ?? 0)
    if let originalTransactionID {
      return try await service.perform(
        ExtendRenewalRequest(
          originalTransactionID: originalTransactionID, days: days, reasonCode: code, force: force),
        by: author, isDryRun: dryRun)
    }
    var asked = try await service.perform(
      ExtendAllRenewalsRequest(
        productID: product ?? "", days: days, reasonCode: code,
        storefronts: (storefronts ?? "").split(separator: ",").map {
          $0.trimmingCharacters(in: .whitespaces)
        },
        bundleID: bundle, environment: sandbox ? "Sandbox" : "Production", force: force),
      by: author, isDryRun: dryRun)
    for _ in 0..<(Self.seconds / 5) where !asked.isComplete && !asked.isDryRun {
      try await Task.sleep(for: .seconds(5))
      asked = try await extensions.refreshed(asked.id)
    }
    return asked
  }
}

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
    try await options.perform(RefundAnswerRequest(id: id, prefer: prefer, bundleID: bundle))
  }
}

extension RefundChoice: ExpressibleByArgument {}
