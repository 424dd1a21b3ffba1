import ArgumentParser
import Configuration
import Foundation
import ReceiptService

/// The command line. The commands on one subject are in one file of `Commands`.
@main
struct Receiptd: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "receiptd",
    abstract: "Knows who has paid in your iOS apps, beside your PostgreSQL.",
    discussion: "Settings come from the environment; docs/configuration.md lists them.",
    version: BuildInfo.current.text,
    groupedSubcommands: [
      CommandGroup(name: "Server", subcommands: ServerCommands.all),
      CommandGroup(name: "Customers", subcommands: CustomerCommands.all),
      CommandGroup(name: "Access", subcommands: GrantCommands.all),
      CommandGroup(name: "App Store", subcommands: [ReconcileCommand.self] + StoreCallCommands.all),
      CommandGroup(name: "Waiting work", subcommands: ReplayCommands.all),
      CommandGroup(name: "Live apps", subcommands: [AdoptCommand.self, ForgetXcodeCommand.self]),
      CommandGroup(
        name: "Numbers", subcommands: [KpiCommand.self, AcquisitionCostCommand.self, WhatIfCommand.self]),
      CommandGroup(name: "People", subcommands: [PeopleCommand.self]),
    ])
}

/// Prints the version and what the binary was built from.
struct VersionCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "version", abstract: "Prints the version, and the packages that receiptd was built from.")

  @Flag(help: "List the Swift packages with their versions.")
  var dependencies = false

  func run() throws {
    print(BuildInfo.current.text)
    guard dependencies else { return }
    guard let file = Self.files.first(where: { FileManager.default.isReadableFile(atPath: $0.path) }) else {
      throw Startup.failure("version: there is no \(Self.files.map(\.path).joined(separator: " or "))")
    }
    guard let data = try? Data(contentsOf: file),
      let resolved = try? JSONDecoder().decode(ResolvedPackages.self, from: data)
    else { throw Startup.failure("version: \(file.path) is not a Package.resolved") }
    for pin in resolved.pins.sorted(by: { $0.identity < $1.identity }) {
      print("\(pin.identity) \(pin.state.version ?? pin.state.revision)")
    }
  }

  /// The file of the package or image, or of the clone in which receiptd was built.
  private static let files = [
    URL(filePath: Bundle.main.executablePath ?? "/").resolvingSymlinksInPath().deletingLastPathComponent()
      .appending(path: "../share/receiptd/Package.resolved").standardizedFileURL,
    URL(filePath: "Package.resolved"),
  ]
}

/// The versions that SwiftPM resolved, as in `Package.resolved`.
private struct ResolvedPackages: Decodable {
  var pins: [Pin]

  struct Pin: Decodable {
    var identity: String
    var state: State
  }

  struct State: Decodable {
    var version: String?
    var revision: String
  }
}
