import AppStoreSimulator
import ArgumentParser

/// The transaction of a purchase.
struct TransactionOption: ParsableArguments {
  @Option(help: "The transaction; the latest by default.") var transaction: String?
}

struct Refund: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Refund a transaction.")
  static let command = "refund"

  @OptionGroup var purchase: PurchaseArguments
  @OptionGroup var option: TransactionOption
  @Option(help: "The percentage of the price, up to 100.") var percentage: Int?
  @Flag(help: "Name an issue in the app as the reason.") var issue = false

  func fill(_ parameters: inout CommandParameters) {
    parameters.transactionID = option.transaction
    parameters.percentage = percentage
    parameters.reason = issue ? "issue" : nil
  }
}

struct DeclineRefund: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Decline a refund.")
  static let command = "decline-refund"

  @OptionGroup var purchase: PurchaseArguments
  @OptionGroup var option: TransactionOption

  func fill(_ parameters: inout CommandParameters) {
    parameters.transactionID = option.transaction
  }
}

struct ReverseRefund: PurchaseCommand {
  static let configuration = CommandConfiguration(abstract: "Reverse a refund.")
  static let command = "reverse-refund"

  @OptionGroup var purchase: PurchaseArguments
  @OptionGroup var option: TransactionOption

  func fill(_ parameters: inout CommandParameters) {
    parameters.transactionID = option.transaction
  }
}

struct RequestConsumption: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Request a refund, for which the store requests the consumption.")
  static let command = "request-consumption"

  @OptionGroup var purchase: PurchaseArguments
  @OptionGroup var option: TransactionOption
  @Option(help: "Apple's reason, such as UNINTENDED_PURCHASE.") var reason: String?

  func fill(_ parameters: inout CommandParameters) {
    parameters.transactionID = option.transaction
    parameters.reason = reason
  }
}

struct Revoke: PurchaseCommand {
  static let configuration = CommandConfiguration(
    abstract: "Withdraw a shared purchase from a family member.")
  static let command = "revoke"

  @OptionGroup var purchase: PurchaseArguments
}
