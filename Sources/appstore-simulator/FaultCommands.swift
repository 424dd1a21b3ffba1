import AppStore
import AppStoreSimulator
import ArgumentParser

/// Adds a fault of the App Store Server API.
struct Fault: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Add a fault of the App Store Server API, for the next requests or until `faults --clear`.")

  @Argument(help: "rate-limit, error, unauthorized, slow, close or cut.") var fault: Form
  @Option(help: "error: Apple's code, such as 5000001 or 4040002.") var code: Int64 = 5_000_000
  @Option(help: "rate-limit: the distance of Retry-After in seconds.") var retryAfter = 1.0
  @Option(help: "slow: the delay in seconds.") var delay = 5.0
  @Option(help: "Only at one endpoint, such as transactionInfo, statuses or history.")
  var endpoint: ServerEndpoint?
  @Option(help: "Only in Production or Sandbox.") var environment: String?
  @Option(help: "The number of requests; all by default.") var requests: Int?
  @Option(help: "The probability, 0 to 1.") var probability: Double?
  @OptionGroup var control: ControlOptions

  enum Form: String, ExpressibleByArgument, CaseIterable {
    case rateLimit = "rate-limit"
    case error, unauthorized, slow, close, cut
  }

  func run() async throws {
    var fault: ServerFault =
      switch fault {
      case .rateLimit: .rateLimit(retryAfter: retryAfter)
      case .error: .error(AppStoreErrorCode(rawValue: code))
      case .unauthorized: .unauthorized
      case .slow: .slow(delay)
      case .close: .close
      case .cut: .cut
      }
    fault.endpoint = endpoint
    fault.environment = environment.map(Environment.init(rawValue:))
    fault.requests = requests
    fault.probability = probability
    try await control.post("/control/faults/api", fault)
  }
}

extension ServerEndpoint: ExpressibleByArgument {}

/// Sets the faults of notification delivery.
struct DeliveryFault: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "delivery-fault",
    abstract: "Replace the delivery faults: lose, duplicate, shuffle or delay notifications.")

  @Option(help: "The probability that an attempt is lost, 0 to 1.") var loss = 0.0
  @Option(help: "The number of next attempts that are lost.") var lose = 0
  @Option(help: "The probability that a notification is sent twice, 0 to 1.") var duplicates = 0.0
  @Option(help: "The number of notifications that are held and sent together, shuffled.") var reorder = 0
  @Option(help: "The delay in seconds of the store's time.") var delay = 0.0
  @Flag(help: "Send the held notifications and keep the faults.") var release = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    if release { return try await control.post("/control/faults/delivery/release", members: [:]) }
    var faults = DeliveryFaults()
    faults.loss = loss
    faults.lose = lose
    faults.duplicates = duplicates
    faults.reorder = reorder
    faults.delay = delay
    try await control.put("/control/faults/delivery", faults)
  }
}

/// Shows or removes the faults.
struct Faults: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Show the active faults.")

  @Flag(help: "Remove all faults and send the held notifications.") var clear = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    if clear { return try await control.delete("/control/faults") }
    try await control.get("/control/faults")
  }
}
