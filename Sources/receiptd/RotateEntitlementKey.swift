import ArgumentParser
import ReceiptService

/// `receiptd rotate-entitlement-key`
struct RotateEntitlementKey: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate-entitlement-key", abstract: "Makes a new key for entitlement tokens.",
    discussion: """
      Every server publishes it within a minute or so and signs with it from an hour later on. What the old key \
      signed stays good until its end.
      """)

  @Flag(
    help: "Somebody else may have the key: the new one signs at once, and the old ones are withdrawn.")
  var leaked = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.performing("rotate-entitlement-key") { service, author in
      try await service.rotateEntitlementKey(isLeaked: leaked, by: author)
    }
  }
}
