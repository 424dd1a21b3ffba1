import ArgumentParser
import ReceiptService

/// `receiptd reset-device-secret`
struct ResetDeviceSecretCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reset-device-secret",
    abstract: "Deletes the secret of a device, so that the device needs none.")

  @Argument(help: "The id of the device.")
  var device: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.resetDeviceSecret) { desk, author in
      try await desk.resetDeviceSecret(of: device, bundleID: bundle, by: author)
    }
  }
}
