import AppStore
import AppStoreSimulator
import ArgumentParser

/// Lets the App Store Server API do something wrong.
struct Fault: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Let the App Store Server API fail: for the next requests, or until `faults --clear`.")

  @Argument(help: "rate-limit, error, unauthorized, slow, close or cut.") var fault: Form
  @Option(help: "error: Apple's code, such as 5000001 or 4040002.") var code: Int64 = 5_000_000
  @Option(help: "rate-limit: in how many seconds Retry-After ends.") var retryAfter = 1.0
  @Option(help: "slow: how many seconds.") var delay = 5.0
  @Option(help: "Only at one endpoint, such as transactionInfo, statuses or history.")
  var endpoint: ServerEndpoint?
  @Option(help: "Only in Production or Sandbox.") var environment: String?
  @Option(help: "How many requests; all of them without it.") var requests: Int?
  @Option(help: "How likely, 0 to 1.") var probability: Double?
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

/// Lets notifications come to grief on their way.
struct DeliveryFault: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "delivery-fault",
    abstract: "Let notifications be lost, doubled, shuffled or late, in place of the faults before.")

  @Option(help: "How likely an attempt is to be lost, 0 to 1.") var loss = 0.0
  @Option(help: "How many of the next attempts are lost.") var lose = 0
  @Option(help: "How likely a notification is to be sent twice, 0 to 1.") var duplicates = 0.0
  @Option(help: "How many notifications are held back and sent together, shuffled.") var reorder = 0
  @Option(help: "By how many seconds of the store's time they are late.") var delay = 0.0
  @Flag(help: "Send what is held back, and change nothing.") var release = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    if release { return try await control.post("/control/faults/delivery/release", NoBody()) }
    var faults = DeliveryFaults()
    faults.loss = loss
    faults.lose = lose
    faults.duplicates = duplicates
    faults.reorder = reorder
    faults.delay = delay
    try await control.put("/control/faults/delivery", faults)
  }
}

/// Shows or ends the faults.
struct Faults: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "The faults that are in force.")

  @Flag(help: "End them all, and send what is held back.") var clear = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    if clear { return try await control.delete("/control/faults") }
    try await control.get("/control/faults")
  }
}
