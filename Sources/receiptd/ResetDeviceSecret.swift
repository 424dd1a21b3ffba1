import ArgumentParser
import ReceiptService

/// `receiptd reset-device-secret`
struct ResetDeviceSecret: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reset-device-secret",
    abstract: "Forgets the secret of a device, so that the device is served without one.")

  @Argument(help: "The device whose secret it is.")
  var device: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform("reset-device-secret") { desk, author in
      try await desk.resetDeviceSecret(of: device, bundleID: bundle, by: author)
    }
  }
}
