import AppStoreSimulator
import ArgumentParser
import Foundation

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
