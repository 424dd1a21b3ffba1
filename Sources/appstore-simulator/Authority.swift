import AppStoreSimulator
import ArgumentParser
import Foundation

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
