import ArgumentParser

private struct NoBody: Encodable {}

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
  @OptionGroup var control: ControlOptions

  private struct Body: Encodable {
    let url: String?
  }

  func run() async throws { try await control.post("/control/webhook", Body(url: address)) }
}
