import AppStoreSimulator
import ArgumentParser
import Foundation

/// The options of an offer; no offer without `--offer`.
struct OfferOptions: ParsableArguments {
  @Option(name: .customLong("offer"), help: "introductory, promotional, offer-code or win-back.")
  var type: String?
  @Option(help: "The length of the offer, such as P1M.") var offerPeriod: String?
  @Option(help: "The price of the offer in milliunits; 0 by default.") var offerPrice: Int64?
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

struct Redeem: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Redeem an offer in an active subscription.")
  static let command = "redeem"

  @OptionGroup var purchase: PurchaseArguments
  @OptionGroup var offer: OfferOptions
  @Option(help: "Change to this product with the offer.") var product: String?

  func fill(_ parameters: inout CommandParameters) throws {
    parameters.offer = try offer.parameters ?? OfferParameters(type: "promotional")
    parameters.productID = product
  }
}

struct Share: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Share a purchase with a family member.")
  static let command = "share"

  @OptionGroup var purchase: PurchaseArguments
  @Option(help: "The name of the member's Apple Account; a new one by default.") var account: String?

  func fill(_ parameters: inout CommandParameters) {
    parameters.account = account
  }
}

struct RescindConsent: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Withdraw a parent's consent to a child's use of the app.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "The name of the child's Apple Account; a new one by default.") var account: String?
  @OptionGroup var control: ControlOptions

  func run() async throws {
    try await control.post(
      "/control/rescinded-consents",
      members: ["bundleID": bundle, "environment": environment, "account": account])
  }
}

struct ExternalPurchase: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Create a token for purchases outside of the store, or send an event of one.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "created, unreported or active-token-reminder.") var event = "created"
  @Option(help: "The id of an existing token.") var id: String?
  @OptionGroup var control: ControlOptions

  func run() async throws {
    try await control.post(
      "/control/external-purchases",
      members: [
        "bundleID": bundle, "environment": environment, "event": event, "externalPurchaseID": id,
      ])
  }
}
