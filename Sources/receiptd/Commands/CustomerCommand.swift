import ArgumentParser
import Foundation
import JSON
import ReceiptService

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
