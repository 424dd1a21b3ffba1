import AppStoreSimulator
import ArgumentParser

struct ChangePrice: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Advanced Commerce: the app sets the price of the next period.")
  static let command = "change-price"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @Option(help: "The price in milliunits: 5990 is 5.99.") var price: Int64
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.price = price
    return parameters
  }
}

struct UpdateMetadata: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Advanced Commerce: the app changes what the subscription is called.")
  static let command = "update-metadata"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}

struct Migrate: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Advanced Commerce: the app takes the subscription over.")
  static let command = "migrate"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}

struct FailExtension: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "An extension of many renewal dates could not extend this one.")
  static let command = "fail-extension"

  @Argument(help: "The subscription.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}
