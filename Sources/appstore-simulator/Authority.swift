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

/// Signs any JSON, also invalid payloads.
struct Sign: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Sign the JSON on standard input as the App Store signs its payloads.")

  @Option(help: "The folder of the authority.") var folder: String

  @Flag(help: "Use a leaf without Apple's marker extension; a verifier must refuse it.")
  var unmarked = false

  @Option(help: "A JSON header in place of the usual one; a verifier must refuse most.")
  var header: String?

  func run() throws {
    let authority = try StoreIdentity.load(from: URL(fileURLWithPath: folder)).authority
    let signer = unmarked ? try authority.makeSigner(marked: false) : authority.signer
    let payload = FileHandle.standardInput.readDataToEndOfFile()
    print(
      try header.map { try signer.sign(json: payload, header: Array($0.utf8)) }
        ?? signer.sign(json: payload))
  }
}
