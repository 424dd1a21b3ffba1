import ArgumentParser

struct NoBody: Encodable {}

struct Truth: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "What is true of a purchase now.")

  @Argument(help: "Any transaction of it.") var transactionID: String
  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.get("/control/truth/\(transactionID)") }
}

struct Notifications: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Every notification, oldest first.")

  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.get("/control/notifications") }
}

struct Send: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Send a notification, once more or at last.")

  @Argument(help: "Its notificationUUID.") var uuid: String
  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.post("/control/notifications/\(uuid)/send", NoBody()) }
}

struct Test: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Send the TEST notification of an app.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @OptionGroup var control: ControlOptions

  private struct Body: Encodable {
    let bundleID: String
    let environment: String?
  }

  func run() async throws {
    try await control.post("/control/test", Body(bundleID: bundle, environment: environment))
  }
}

struct Webhook: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Set where notifications go.")

  @Argument(help: "The address; none to stop sending.") var address: String?
  @Flag(inversion: .prefixedNo, help: "Whether notifications that fail from now on are sent again.")
  var retries: Bool?
  @OptionGroup var control: ControlOptions

  private struct Body: Encodable {
    let url: String?
    let retries: Bool?
  }

  func run() async throws {
    try await control.post("/control/webhook", Body(url: address, retries: retries))
  }
}

struct Requests: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "The latest requests that the App Store Server API got.")

  @Option(help: "Only those to one endpoint, such as transactionInfo.") var endpoint: String?
  @Flag(help: "Forget them.") var clear = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    if clear { return try await control.delete("/control/requests") }
    try await control.get("/control/requests" + (endpoint.map { "?endpoint=\($0)" } ?? ""))
  }
}

struct Consumption: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "What apps told of how purchases were used.")

  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.get("/control/consumption") }
}
