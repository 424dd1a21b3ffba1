import AppStoreSimulator
import ArgumentParser
import Foundation

/// The simulator to call and the part of its response to print.
struct ControlOptions: ParsableArguments {
  @Option(help: "The address of the simulator.")
  var url = "http://127.0.0.1:4000"

  @Option(help: "Print only this member of the response, such as signedTransaction or notification.uuid.")
  var field: String?

  @Flag(help: "Hold the notification; `send` sends it later.")
  var hold = false

  func post(_ path: String, _ body: some Encodable) async throws {
    try show(await ControlClient(base: url).post(path + (hold ? "?deliver=false" : ""), body))
  }

  /// Posts the members that have a value.
  func post(_ path: String, members: [String: String?]) async throws {
    try await post(path, members.compactMapValues(\.self))
  }

  func get(_ path: String) async throws {
    try show(await ControlClient(base: url).get(path))
  }

  func put(_ path: String, _ body: some Encodable) async throws {
    try show(await ControlClient(base: url).put(path, body))
  }

  func delete(_ path: String) async throws {
    try show(await ControlClient(base: url).delete(path))
  }

  private func show(_ answer: [UInt8]) throws {
    guard !answer.isEmpty else { return }
    guard let field else { return print(String(decoding: answer, as: UTF8.self)) }
    var value: Any? = try JSONSerialization.jsonObject(with: Data(answer))
    for name in field.split(separator: ".") { value = (value as? [String: Any])?[String(name)] }
    guard let value else { throw ValidationError("The response has no member \(field).") }
    if let text = value as? String { return print(text) }
    let json = try JSONSerialization.data(withJSONObject: value, options: [.fragmentsAllowed, .sortedKeys])
    print(String(decoding: json, as: UTF8.self))
  }
}

/// The arguments of every command on a purchase.
struct PurchaseArguments: ParsableArguments {
  @Argument(help: "The original transaction id of the purchase.") var originalTransactionID: String
  @OptionGroup var control: ControlOptions
}

/// A command on a purchase.
protocol PurchaseCommand: AsyncParsableCommand {
  var purchase: PurchaseArguments { get }
  /// The name in the control API.
  static var command: String { get }
  /// Sets the parameters of the command.
  func fill(_ parameters: inout CommandParameters) throws
}

extension PurchaseCommand {
  func fill(_ parameters: inout CommandParameters) {}

  func run() async throws {
    var parameters = CommandParameters()
    try fill(&parameters)
    try await purchase.control.post(
      "/control/subscriptions/\(purchase.originalTransactionID)/\(Self.command)", parameters)
  }
}
