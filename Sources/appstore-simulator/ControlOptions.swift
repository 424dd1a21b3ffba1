import AppStoreSimulator
import ArgumentParser
import Foundation

/// Which simulator to talk to and what to print of its answer.
struct ControlOptions: ParsableArguments {
  @Option(help: "Where the simulator listens.")
  var url = "http://127.0.0.1:4000"

  @Option(help: "Print only this member of the answer, such as signedTransaction or notification.uuid.")
  var field: String?

  @Flag(help: "Hold the notification back; `send` sends it later.")
  var hold = false

  func post(_ path: String, _ body: some Encodable) async throws {
    try show(await ControlClient(base: url).post(path + (hold ? "?deliver=false" : ""), body))
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
    guard let value else { throw ValidationError("The answer has no member \(field).") }
    if let text = value as? String { return print(text) }
    let json = try JSONSerialization.data(withJSONObject: value, options: [.fragmentsAllowed, .sortedKeys])
    print(String(decoding: json, as: UTF8.self))
  }
}

/// A command on a purchase, which needs its original transaction id.
protocol PurchaseCommand: AsyncParsableCommand {
  var originalTransactionID: String { get }
  var control: ControlOptions { get }
  /// Its name in the control API.
  static var command: String { get }
  /// What goes with it.
  var parameters: CommandParameters { get }
}

extension PurchaseCommand {
  var parameters: CommandParameters { CommandParameters() }

  func run() async throws {
    try await control.post("/control/subscriptions/\(originalTransactionID)/\(Self.command)", parameters)
  }
}
