import AppStoreSimulator
import ArgumentParser
import Foundation
import HTTPTypes

@main
struct AppStoreSimulatorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "appstore-simulator",
    abstract: "A simulated App Store: sells, renews, refunds, signs, notifies and serves the Server API.",
    subcommands: [Serve.self, Xcode.self, Control.self, Authority.self, CorpusCommand.self])
}

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

/// Writes request bodies for a load generator, one per line.
struct CorpusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "corpus",
    abstract: "Print signed notifications or purchases as request bodies, all different, one per line.")

  enum Kind: String, ExpressibleByArgument, CaseIterable {
    case notifications, transactions
  }

  @Argument(help: "notifications, or transactions as devices post them.") var kind: Kind
  @Option(help: "The folder of the authority.") var folder: String
  @Option(help: "The apps on sale: a file in the form of receiptd's config/apps.json.") var config: String
  @Option(help: "The app's bundle id.") var bundle: String
  @Option(help: "The product's id.") var product: String
  @Option(help: "The number of bodies.") var count = 10_000
  @Option(help: "The number of renewals of each purchase.") var renewals = 2
  @Flag(help: "Give each purchase its own appAccountToken.") var accountTokens = false
  @Flag(name: .customLong("device-ids"), help: "Add a deviceID to each transaction.")
  var deviceIDs = false
  @Option(help: "The seed of the purchases; random by default.") var seed = UInt64.random(in: .min ... .max)

  private struct Notification: Encodable { let signedPayload: String }
  private struct Transaction: Encodable {
    let signedTransaction: String
    let deviceID: String?
  }

  func run() throws {
    let apps = try CatalogFile.read(URL(fileURLWithPath: config))
    guard let app = apps.first(where: { $0.bundleID == bundle }), app.products[product] != nil else {
      throw ValidationError("\(config) has no product \(product) of \(bundle).")
    }
    let signer = try StoreIdentity.load(from: URL(fileURLWithPath: folder)).authority.signer
    var corpus = Corpus(
      app: app, productID: product, renewals: kind == .notifications ? renewals : 0,
      namesCustomers: accountTokens, signer: signer, now: Date(), seed: seed)
    var missing = count
    while missing > 0 {
      var lines = Data()
      for item in try corpus.nextBlock().prefix(missing) {
        lines += try body(item)
        lines.append(UInt8(ascii: "\n"))
        missing -= 1
      }
      try FileHandle.standardOutput.write(contentsOf: lines)
    }
  }

  private func body(_ item: Corpus.Item) throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    switch kind {
    case .notifications: return try encoder.encode(Notification(signedPayload: item.signedPayload))
    case .transactions:
      return try encoder.encode(
        Transaction(
          signedTransaction: item.signedTransaction,
          deviceID: deviceIDs ? "bench-\(item.originalTransactionID)" : nil))
    }
  }
}

/// Makes the files with which a server trusts and calls the simulator.
struct Authority: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Make the signing authority and the API key in a folder, unless they exist.")

  @Option(help: "The folder.") var folder: String

  func run() throws {
    let folder = URL(fileURLWithPath: folder)
    _ = try StoreIdentity.loadOrMake(in: folder)
    // Settings for receiptd, fit for `set -a; source`.
    let settings = folder.appendingPathComponent("receiptd.env")
    print(try String(contentsOf: settings, encoding: .utf8), terminator: "")
  }
}
