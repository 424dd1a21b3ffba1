import AppStoreSimulator
import ArgumentParser
import Foundation
import HTTPTypes

/// Sends one request to the control API of a running simulator.
struct Control: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Call the control API of a running simulator and print its answer.",
    discussion: """
      docs/simulator.md lists the paths and their members. A value is JSON, or else a text:

        appstore-simulator control get truth/700000000000001
        appstore-simulator control post subscriptions/700000000000001/refund percentage=50
      """)

  enum Method: String, ExpressibleByArgument, CaseIterable {
    case get, post, put, delete

    var request: HTTPRequest.Method {
      switch self {
      case .get: .get
      case .post: .post
      case .put: .put
      case .delete: .delete
      }
    }
  }

  @Argument var method: Method
  @Argument(help: "The path below /control, with its query.") var path: String
  @Argument(help: "The members of the body, as name=value.") var members: [String] = []
  @Option(help: "The address of the simulator.") var url = "http://127.0.0.1:4000"
  @Option(help: "Print only this member of the answer, such as signedTransaction or notification.uuid.")
  var field: String?

  func run() async throws {
    let hasBody = method == .post || method == .put
    let answer = try await ControlClient(base: url).send(
      method.request, "/control/" + path, json: hasBody ? try body() : nil)
    guard let field else { return print(String(decoding: answer, as: UTF8.self)) }
    var value: Any? = try JSONSerialization.jsonObject(with: Data(answer))
    for name in field.split(separator: ".") { value = (value as? [String: Any])?[String(name)] }
    guard let value else { throw ValidationError("The answer has no member \(field).") }
    print(try value as? String ?? String(decoding: Self.json(of: value), as: UTF8.self))
  }

  private func body() throws -> Data {
    var body: [String: Any] = [:]
    for member in members {
      let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2 else { throw ValidationError("\(member) is not name=value.") }
      let value = Data(parts[1].utf8)
      body[String(parts[0])] =
        (try? JSONSerialization.jsonObject(with: value, options: .fragmentsAllowed)) ?? String(parts[1])
    }
    return try Self.json(of: body)
  }

  private static func json(of value: Any) throws -> Data {
    try JSONSerialization.data(withJSONObject: value, options: [.fragmentsAllowed, .sortedKeys])
  }
}
