import Actions
import ArgumentParser
import Foundation
import HTTP
import JSON
import ReceiptService
import Support
import Text

/// The commands on one customer.
enum CustomerCommands {
  static let all: [any ParsableCommand.Type] = [
    FindCommand.self, CustomerCommand.self, RefreshCommand.self, NoteCommand.self, TransferCommand.self,
    ResetDeviceSecretCommand.self, ExportCustomerCommand.self, EraseCustomerCommand.self,
  ]
}

/// `receiptd find`
struct FindCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "find",
    abstract: "Finds a customer by anything that the customer holds.",
    discussion: """
      An order id is looked up at the App Store once, and the answer is kept; what it repairs is recorded. The exit status is 1 unless something \
      was found.
      """)

  @Argument(
    help: """
      An order id, a transaction id, a user's UUID, a device's id, the request id of an error message, or an e-mail \
      address.
      """)
  var what: String

  @Flag(help: "The same as JSON, on one line.")
  var json = false

  func run() async throws {
    try await Startup.withService(.find) { service, actor in
      let result: FindResult
      do {
        result = try await service.support.find(what, by: Startup.reader(actor))
      } catch {
        throw Startup.failure("find: \(Startup.sentence(error))")
      }
      print(json ? String(decoding: JSONWriter.bytes(of: result), as: UTF8.self) : result.description)
      if !result.isFound { throw ExitCode.failure }
    }
  }
}

/// `receiptd customer`
struct CustomerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "customer",
    abstract: "Shows what support needs to know of a customer.",
    discussion: "The exit status is 1 if the id is unknown.")

  @Argument(help: "Anything that `receiptd find` finds.")
  var id: String

  @Flag(help: "The same as JSON, on one line.")
  var json = false

  @Flag(help: "Print the hash that the log has for this id in the field `customer`, and nothing else.")
  var logKey = false

  func run() async throws {
    if logKey { return try await printLogHashes() }
    try await Startup.withService(.customer) { service, actor in
      let report: CustomerReport
      do {
        report = try await service.support.customer(id, by: Startup.reader(actor))
      } catch {
        throw Startup.failure("customer: \(Startup.sentence(error))")
      }
      print(json ? String(decoding: JSONWriter.bytes(of: report), as: UTF8.self) : report.description)
      if report.isEmpty { throw ExitCode.failure }
    }
  }

  private func printLogHashes() async throws {
    try await Startup.withService(.customer) { service, _ in
      do {
        for (id, hash) in try await service.support.logHashes(of: id) { print("\(hash) \(id.shown)") }
      } catch {
        throw Startup.failure("customer: \(Startup.sentence(error))")
      }
    }
  }
}

/// `receiptd refresh`
struct RefreshCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "refresh",
    abstract: "Asks the App Store about a customer's purchases now, and repairs.",
    discussion: """
      Reads the statuses and the history of the customer's purchases, records them, and prints what differed. The \
      exit status is 1 if the App Store did not answer a request.
      """)

  @Argument(help: "Anything that `receiptd find` finds, or any transaction id.")
  var id: String

  @Option(help: "The reason, for the record.")
  var reason = "asked by hand"

  @OptionGroup var author: AuthorOptions

  @Flag(help: "The result as JSON, on one line.")
  var json = false

  func validate() throws { try author.requireName() }

  func run() async throws {
    try await Startup.withService(.refresh) { service, actor in
      let report: RefreshReport
      do {
        report = try await service.perform(
          RefreshRequest(id: id), by: author.author(actor, reason, in: service))
      } catch {
        throw Startup.failure("refresh: \(Startup.sentence(error))")
      }
      print(json ? String(decoding: JSONWriter.bytes(of: report), as: UTF8.self) : report.description)
      if !report.isComplete { throw ExitCode.failure }
    }
  }
}

/// `receiptd transfer`
struct TransferCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transfer",
    abstract: "Gives one purchase to another customer, and shows both before and after.",
    discussion: """
      The former owner cannot claim it back by a proof, whatever the app's transfer policy is. Only another transfer \
      moves it, or an appAccountToken that the App Store had not signed before.
      """)

  @Argument(help: "The original transaction id of the purchase.")
  var originalTransactionID: String

  @Option(name: .customLong("to"), help: "The user's UUID or the device's id of the new owner.")
  var customer: String

  @Flag(help: "Also if the customer was never seen.")
  var force = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(
      TransferRequest(originalTransactionID: originalTransactionID, to: customer, force: force))
  }
}

/// `receiptd note`
struct NoteCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "note",
    abstract: "Writes down what support knows of a customer, in the record and the timeline.",
    discussion: "The reason is the note.")

  @Argument(help: "A user's UUID or a device's id, as the app's customers are.")
  var customer: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(NoteRequest(customer: customer, bundleID: bundle))
  }
}

/// `receiptd reset-device-secret`
struct ResetDeviceSecretCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reset-device-secret",
    abstract: "Deletes the secret of a device, so that the device needs none.")

  @Argument(help: "The id of the device.")
  var device: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(
    help: ArgumentHelp(
      "Whose proof keeps the next secret: an original transaction id, trial or none; needed where the device has a record of several accounts.",
      valueName: "purchase"))
  var proof: String?

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(ResetDeviceSecretRequest(deviceID: device, bundleID: bundle, proof: proof))
  }
}

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

/// `receiptd erase-customer`
struct EraseCustomerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "erase-customer",
    abstract: "Erases a customer: identity and free text go, money and counts stay.",
    discussion: """
      It cannot be undone. A subscription goes on at the App Store until the customer cancels it. docs/privacy.md lists \
      what goes and what stays.
      """)

  @Argument(help: "The user's UUID or the device's id, as `receiptd find` prints it.")
  var customer: String

  @Option(help: "The app with this bundle id; needed if the id is a customer of several apps.")
  var bundle: String?

  @Flag(help: "Also if a subscription goes on at the App Store, or a destination cannot be told.")
  var force = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(EraseCustomerRequest(customer: customer, bundleID: bundle, force: force))
  }
}
