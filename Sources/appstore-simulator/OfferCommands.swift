import AppStoreSimulator
import ArgumentParser
import Foundation

/// An offer; none without its type.
struct OfferOptions: ParsableArguments {
  @Option(name: .customLong("offer"), help: "introductory, promotional, offer-code or win-back.")
  var type: String?
  @Option(help: "How long the offer lasts, such as P1M.") var offerPeriod: String?
  @Option(help: "What the offer costs, in milliunits; nothing by default.") var offerPrice: Int64?
  @Option(help: "The offer's id or code.") var offerIdentifier: String?

  var parameters: OfferParameters? {
    get throws {
      guard let type else { return nil }
      var parameters = OfferParameters(type: type)
      parameters.period = try offerPeriod.map { text in
        guard let period = StorePeriod(text) else { throw ValidationError("\(text) is not a period.") }
        return period
      }
      parameters.price = offerPrice
      parameters.identifier = offerIdentifier
      return parameters
    }
  }
}

struct Redeem: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "The customer of an active subscription redeems an offer.")

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var offer: OfferOptions
  @Option(help: "Change to this product with it.") var product: String?
  @OptionGroup var control: ControlOptions

  func run() async throws {
    var parameters = CommandParameters()
    parameters.offer = try offer.parameters ?? OfferParameters(type: "promotional")
    parameters.productID = product
    try await control.post("/control/subscriptions/\(originalTransactionID)/redeem", parameters)
  }
}

struct Share: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "The purchaser shares with a member of the family.")
  static let command = "share"

  @Argument(help: "The purchase.") var originalTransactionID: String
  @Option(help: "The member's Apple Account, by any name; a new one by default.") var account: String?
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.account = account
    return parameters
  }
}

struct RescindConsent: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "A parent withdraws the consent to a child's use of the app.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "The child's Apple Account, by any name; a new one by default.") var account: String?
  @OptionGroup var control: ControlOptions

  private struct Body: Encodable {
    let bundleID: String
    let environment: String?
    let account: String?
  }

  func run() async throws {
    try await control.post(
      "/control/rescinded-consents",
      Body(bundleID: bundle, environment: environment, account: account))
  }
}

struct ExternalPurchase: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "A token for a purchase outside of the store is made, or something is said of one.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "created, unreported or active-token-reminder.") var event = "created"
  @Option(help: "The token, where one was made.") var id: String?
  @OptionGroup var control: ControlOptions

  private struct Body: Encodable {
    let bundleID: String
    let environment: String?
    let event: String
    let externalPurchaseID: String?
  }

  func run() async throws {
    try await control.post(
      "/control/external-purchases",
      Body(bundleID: bundle, environment: environment, event: event, externalPurchaseID: id))
  }
}
