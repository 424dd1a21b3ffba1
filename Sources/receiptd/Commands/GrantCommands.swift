import Actions
import ArgumentParser
import Customers
import Deliveries
import Foundation
import Identifiers
import ReceiptService
import Support
import Text

/// The commands that give access.
enum GrantCommands {
  static let all: [any ParsableCommand.Type] = [
    GrantCommand.self, RevokeGrantCommand.self, ExtendTrialCommand.self, GrandfatherCommand.self,
    FreeAccessCommand.self,
  ]
}

/// `receiptd grant`
struct GrantCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grant",
    abstract: "Gives a customer access for a time.",
    discussion: "Two grants do not add up: access lasts until the later end.")

  @Argument(help: "The user's UUID, or the device's id in an app whose customers are devices.")
  var customer: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(help: "The tier of the grant.")
  var tier: String

  @Option(help: "The number of days from now.")
  var days: Int

  @Flag(help: "Also if the customer was never seen.")
  var force = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(
      GrantRequest(customer: customer, bundleID: bundle, tier: tier, days: days, force: force))
  }
}

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
    try await options.perform(RevokeGrantRequest(grant: grant))
  }
}

/// `receiptd extend-trial`
struct ExtendTrialCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "extend-trial", abstract: "Gives a trial more days, once.",
    discussion: "The days count from the end of the trial, or from now if it is over.")

  @Argument(help: "The id of the device.")
  var device: String

  @Option(help: "The app's bundle id.")
  var bundle: String

  @Option(help: "The number of days to add.")
  var days: Int

  @Flag(help: "Also if the customer was never seen.")
  var force = false

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(
      ExtendTrialRequest(deviceID: device, bundleID: bundle, days: days, force: force))
  }
}

/// `receiptd grandfather`
struct GrandfatherCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grandfather",
    abstract: "Awards owners from before a date; can be run again.",
    discussion: """
      For apps with the key grandfather: every user whose row in the table that the app writes to was created \
      before the date gets the tier without end. The exit status is 1 if a table has no dates.
      """)

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @Flag(help: "Count the awards and make none.")
  var dryRun = false

  func run() async throws {
    try await Startup.withService(.grandfather) { service, _ in
      let reports: [GrandfatherReport]
      do {
        reports = try await service.grandfather(bundleID: bundle, isDryRun: dryRun)
      } catch {
        throw Startup.failure("grandfather: \(Startup.sentence(error))")
      }
      for report in reports { print(report.description.wrappedForTerminal()) }
      if reports.isEmpty {
        throw Startup.failure(
          "grandfather: \(bundle.map { "no app '\($0)'" } ?? "no app") with the key 'grandfather' is configured"
        )
      }
      if reports.contains(where: { !$0.problems.isEmpty }) { throw ExitCode.failure }
    }
  }
}

/// `receiptd free-access`
struct FreeAccessCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "free-access",
    abstract: "Opens every feature of an app to everyone, or ends that.",
    discussion: """
      It takes effect with the next response of every server. Trials and the app's own grace pause while it is on, \
      and continue with the remaining time when it is off.
      """)

  @Argument(help: "on or off.")
  var state: FreeAccessRequest.State

  @Option(help: "The app's bundle id.")
  var bundle: String

  @OptionGroup var options: SupportOptions

  func run() async throws {
    try await options.perform(FreeAccessRequest(state: state, bundleID: bundle))
  }
}

extension FreeAccessRequest.State: ExpressibleByArgument {}
