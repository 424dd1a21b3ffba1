import ArgumentParser
import Foundation
import Identifiers
import ReceiptService

/// `receiptd revoke-grant`
struct RevokeGrantCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "revoke-grant", abstract: "Ends a grant now.")

  @Argument(
    help: "The grant's id, as `receiptd grant` and `receiptd customer` print it.",
    transform: { text in
      guard let uuid = UUID(rfc9562: text) else { throw ValidationError("\(text) is not a UUID.") }
      return uuid
    })
  var grant: UUID

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(.revokeGrant) { desk, author in
      try await desk.revokeGrant(grant, by: author)
    }
  }
}
