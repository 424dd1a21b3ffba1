import ArgumentParser
import Foundation
import JSON
import ReceiptService

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
