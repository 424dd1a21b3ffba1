import AppStoreSimulator
import ArgumentParser

struct Renew: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "The next period is charged.")
  static let command = "renew"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}

struct FailRenewal: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "The charge fails; billing grace follows where the app has it.")
  static let command = "fail-renewal"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Flag(inversion: .prefixedNo, help: "Give billing grace or not, whatever the app's setting.")
  var grace: Bool?
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.grace = grace
    return parameters
  }
}

struct Recover: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "A failed charge succeeds after all.")
  static let command = "recover"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}

struct ExpireGrace: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Billing grace has ended unpaid.")
  static let command = "expire-grace"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}

struct Expire: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "The subscription has ended.")
  static let command = "expire"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Option(help: "voluntary, billing-retry, price-increase, product-not-for-sale or other.")
  var reason: String?
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.reason = reason
    return parameters
  }
}

struct Extend: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "The current period is made longer.")
  static let command = "extend"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Option(help: "By how many days.") var days: Int
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.days = days
    return parameters
  }
}

struct AnnouncePrice: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "A higher price is announced, which the customer must accept.")
  static let command = "announce-price"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Option(help: "The price in milliunits: 5990 is 5.99.") var price: Int64
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.price = price
    return parameters
  }
}
