import ArgumentParser

struct Truth: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Show the true state of a purchase.")

  @Argument(help: "Any transaction of the purchase.") var transactionID: String
  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.get("/control/truth/\(transactionID)") }
}

struct Notifications: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "List all notifications, oldest first.")

  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.get("/control/notifications") }
}

struct Send: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Send a notification, or send it again.")

  @Argument(help: "Its notificationUUID.") var uuid: String
  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.post("/control/notifications/\(uuid)/send", members: [:]) }
}

struct Test: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Send the TEST notification of an app.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @OptionGroup var control: ControlOptions

  func run() async throws {
    try await control.post("/control/test", members: ["bundleID": bundle, "environment": environment])
  }
}

struct Webhook: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Set the webhook for notifications.")

  @Argument(help: "The address; none turns delivery off.") var address: String?
  @Flag(inversion: .prefixedNo, help: "Whether later failures are sent again.")
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
    abstract: "List the latest requests to the App Store Server API.")

  @Option(help: "Only those to one endpoint, such as transactionInfo.") var endpoint: String?
  @Flag(help: "Clear the list.") var clear = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    if clear { return try await control.delete("/control/requests") }
    try await control.get("/control/requests" + (endpoint.map { "?endpoint=\($0)" } ?? ""))
  }
}

struct Consumption: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "List the received consumption information.")

  @OptionGroup var control: ControlOptions

  func run() async throws { try await control.get("/control/consumption") }
}
