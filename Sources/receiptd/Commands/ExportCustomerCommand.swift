import ArgumentParser
import Foundation
import HTTP
import ReceiptService

/// `receiptd export-customer`
struct ExportCustomerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export-customer",
    abstract: "Prints all that is known of a customer, as JSON on one line.",
    discussion: "What identifies other customers is left out. The exit status is 1 if the id is unknown.")

  @Argument(help: "The user's UUID or the device's id, as `receiptd find` prints it.")
  var customer: String

  @Option(help: "The app with this bundle id; needed if the id is a customer of several apps.")
  var bundle: String?

  func run() async throws {
    try await Startup.withService(.exportCustomer) { service, _ in
      do {
        let export = try await service.support.exportCustomer(customer, bundleID: bundle)
        print(String(decoding: try JSONCoding.encode(export), as: UTF8.self))
      } catch {
        throw Startup.failure("export-customer: \(Startup.sentence(error))")
      }
    }
  }
}
