import ArgumentParser
import ReceiptService

/// `receiptd rotate-entitlement-key`
struct RotateEntitlementKeyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate-entitlement-key", abstract: "Creates a new key for entitlement tokens.",
    discussion: """
      Every server publishes the key within about a minute and signs with it an hour later. Tokens of the old key \
      stay valid until they expire.
      """)

  @Flag(
    help: "The old key may be known to others: sign with the new key at once and withdraw the old ones.")
  var leaked = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.performWithService(.rotateEntitlementKey) { service, author in
      try await service.rotateEntitlementKey(isLeaked: leaked, by: author)
    }
  }
}
