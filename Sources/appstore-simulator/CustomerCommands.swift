import AppStore
import AppStoreSimulator
import ArgumentParser
import Foundation
import Identifiers

struct Buy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Buy a product.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "The product's id.") var product: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "The app's own id of its customer, a UUID.") var appAccountToken: String?
  @Option(help: "The name of the Apple Account; a new one by default.") var account: String?
  @Flag(help: "Begin with a free trial.") var freeTrial = false
  @OptionGroup var offer: OfferOptions
  @Flag(help: "Announce the offer with OFFER_REDEEMED instead of SUBSCRIBED.") var announceOffer = false
  @Flag(help: "Shared by a family member instead of bought.") var familyShared = false
  @Option(help: "The time of the purchase, in RFC 3339; now by default.") var purchaseDate: String?
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
    abstract: "Sign the app transaction of a customer; a new customer downloads the app now.")

  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "Production or Sandbox.") var environment: String?
  @Option(help: "The name of the Apple Account; a new one by default.") var account: String?
  @Option(help: "The time of the first download, in RFC 3339.") var originalPurchaseDate: String?
  @OptionGroup var control: ControlOptions

  func run() async throws {
    try await control.post(
      "/control/app-transactions",
      members: [
        "bundleID": bundle, "environment": environment, "account": account,
        "originalPurchaseDate": originalPurchaseDate,
      ])
  }
}

struct AutoRenew: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Turn renewal on or off.")
  static let command = "auto-renew"

  enum Setting: String, ExpressibleByArgument, CaseIterable { case on, off }

  @OptionGroup var purchase: PurchaseArguments
  @Argument(help: "on or off.") var setting: Setting

  func fill(_ parameters: inout CommandParameters) {
    parameters.on = setting == .on
  }
}

struct ChangeProduct: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Change to another product: an upgrade at once, a downgrade at the next renewal.")
  static let command = "change-product"

  @OptionGroup var purchase: PurchaseArguments
  @Argument(help: "The new product.") var product: String

  func fill(_ parameters: inout CommandParameters) {
    parameters.productID = product
  }
}

struct AcceptPrice: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Accept an announced price.")
  static let command = "accept-price"

  @OptionGroup var purchase: PurchaseArguments
}
