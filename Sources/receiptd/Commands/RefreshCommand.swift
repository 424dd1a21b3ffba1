import ArgumentParser
import Foundation
import JSON
import ReceiptService

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
        report = try await service.support.refresh(id, by: author.author(actor, reason, in: service))
      } catch {
        throw Startup.failure("refresh: \(Startup.sentence(error))")
      }
      print(json ? String(decoding: JSONWriter.bytes(of: report), as: UTF8.self) : report.description)
      if !report.isComplete { throw ExitCode.failure }
    }
  }
}
