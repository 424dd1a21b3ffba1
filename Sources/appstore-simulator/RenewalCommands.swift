import AppStoreSimulator
import ArgumentParser

struct Renew: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Charge the next period.")
  static let command = "renew"

  @OptionGroup var purchase: PurchaseArguments
}

struct FailRenewal: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Fail the charge; billing grace follows if the app has it.")
  static let command = "fail-renewal"

  @OptionGroup var purchase: PurchaseArguments
  @Flag(inversion: .prefixedNo, help: "Override the app's setting of billing grace.")
  var grace: Bool?

  func fill(_ parameters: inout CommandParameters) {
    parameters.grace = grace
  }
}

struct Recover: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Let a failed charge succeed.")
  static let command = "recover"

  @OptionGroup var purchase: PurchaseArguments
}

struct ExpireGrace: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "End billing grace without payment.")
  static let command = "expire-grace"

  @OptionGroup var purchase: PurchaseArguments
}

struct Expire: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "End the subscription.")
  static let command = "expire"

  @OptionGroup var purchase: PurchaseArguments
  @Option(help: "voluntary, billing-retry, price-increase, product-not-for-sale or other.")
  var reason: String?

  func fill(_ parameters: inout CommandParameters) {
    parameters.reason = reason
  }
}

struct Extend: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Extend the current period.")
  static let command = "extend"

  @OptionGroup var purchase: PurchaseArguments
  @Option(help: "The number of days.") var days: Int

  func fill(_ parameters: inout CommandParameters) {
    parameters.days = days
  }
}

struct FailExtension: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Fail a mass extension for this subscription.")
  static let command = "fail-extension"

  @OptionGroup var purchase: PurchaseArguments
}

struct AnnouncePrice: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Announce a higher price, which the customer must accept.")
  static let command = "announce-price"

  @OptionGroup var purchase: PurchaseArguments
  @Option(help: "The price in milliunits: 5990 is 5.99.") var price: Int64

  func fill(_ parameters: inout CommandParameters) {
    parameters.price = price
  }
}
