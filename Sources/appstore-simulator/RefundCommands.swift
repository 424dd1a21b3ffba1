import AppStoreSimulator
import ArgumentParser

/// Which transaction of a purchase is meant.
struct TransactionOption: ParsableArguments {
  @Option(help: "The transaction; the latest by default.") var transaction: String?
}

struct Refund: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "A transaction is refunded.")
  static let command = "refund"

  @Argument(help: "The purchase.") var originalTransactionID: String
  @OptionGroup var which: TransactionOption
  @Option(help: "How much of the price, up to 100.") var percentage: Int?
  @Flag(help: "Because of an issue with the app.") var issue = false
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.transactionID = which.transaction
    parameters.percentage = percentage
    parameters.reason = issue ? "issue" : nil
    return parameters
  }
}

struct DeclineRefund: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "A refund is refused.")
  static let command = "decline-refund"

  @Argument(help: "The purchase.") var originalTransactionID: String
  @OptionGroup var which: TransactionOption
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.transactionID = which.transaction
    return parameters
  }
}

struct ReverseRefund: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "A refund is taken back.")
  static let command = "reverse-refund"

  @Argument(help: "The purchase.") var originalTransactionID: String
  @OptionGroup var which: TransactionOption
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.transactionID = which.transaction
    return parameters
  }
}

struct RequestConsumption: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "A customer asks for a refund, and the store asks the app.")
  static let command = "request-consumption"

  @Argument(help: "The purchase.") var originalTransactionID: String
  @OptionGroup var which: TransactionOption
  @Option(help: "Apple's word for why, such as UNINTENDED_PURCHASE.") var reason: String?
  @OptionGroup var control: ControlOptions

  var parameters: CommandParameters {
    var parameters = CommandParameters()
    parameters.transactionID = which.transaction
    parameters.reason = reason
    return parameters
  }
}

struct Revoke: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "The family no longer shares it.")
  static let command = "revoke"

  @Argument(help: "The family member's purchase.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}
