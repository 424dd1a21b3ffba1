import AppStore
import AppStoreSimulator
import ArgumentParser
import Foundation
import Identifiers

struct Buy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "A customer buys a product.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "The product's id.") var product: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "The app's own id of its customer, a UUID.") var appAccountToken: String?
  @Option(help: "The Apple Account, by any name; a new one by default.") var account: String?
  @Flag(help: "Begin with a free trial.") var freeTrial = false
  @OptionGroup var offer: OfferOptions
  @Flag(help: "Announce the offer by OFFER_REDEEMED and not by SUBSCRIBED.") var announceOffer = false
  @Flag(help: "Received from the family, not bought.") var familyShared = false
  @Option(help: "When it was bought, in RFC 3339; now by default.") var purchaseDate: String?
  @OptionGroup var control: ControlOptions

  func run() async throws {
    var purchase = PurchaseParameters(bundleID: bundle, productID: product)
    purchase.environment = environment.map(Environment.init(rawValue:))
    purchase.appAccountToken = try appAccountToken.map { text in
      guard let uuid = UUID(rfc9562: text) else { throw ValidationError("\(text) is not a UUID.") }
      return uuid
    }
    purchase.account = account
    purchase.freeTrial = freeTrial
    purchase.offer = try offer.parameters
    purchase.announcesOffer = announceOffer
    purchase.ownership = familyShared ? .familyShared : .purchased
    purchase.purchaseDate = try purchaseDate.map { try Date($0, strategy: .iso8601) }
    try await control.post("/control/purchases", purchase)
  }
}

struct GetApp: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "app-transaction",
    abstract: "Sign the app transaction of a customer, who gets the app now if they have not got it yet.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "The Apple Account, by any name; a new one by default.") var account: String?
  @Option(help: "When the customer first got the app, in RFC 3339.") var originalPurchaseDate: String?
  @OptionGroup var control: ControlOptions

  private struct Body: Encodable {
    let bundleID: String
    let environment: String?
    let account: String?
    let originalPurchaseDate: String?
  }

  func run() async throws {
    try await control.post(
      "/control/app-transactions",
      Body(
        bundleID: bundle, environment: environment, account: account,
        originalPurchaseDate: originalPurchaseDate))
  }
}

struct AutoRenew: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "The customer turns renewal on or off.")
  static let command = "auto-renew"

  enum Setting: String, ExpressibleByArgument, CaseIterable { case on, off }

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Argument(help: "on or off.") var setting: Setting
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.on = setting == .on
    return parameters
  }
}

struct ChangeProduct: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "The customer changes to another product: up at once, down at the next renewal.")
  static let command = "change-product"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Argument(help: "The other product.") var product: String
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.productID = product
    return parameters
  }
}

struct AcceptPrice: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "The customer accepts an announced price.")
  static let command = "accept-price"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}
