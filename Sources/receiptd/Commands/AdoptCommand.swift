import Actions
import Adoption
import ArgumentParser
import Foundation
import ReceiptService
import Support
import Text

/// `receiptd forget-xcode`
struct ForgetXcodeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "forget-xcode",
    abstract: "Deletes what StoreKit tests in Xcode left in the database.",
    discussion:
      "Purchases, trials and awards with the environment Xcode, and the status that they gave; nothing else.")

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @Option(help: "The reason, for the record.")
  var reason = "a new run of the tests"

  @OptionGroup var author: AuthorOptions

  @Flag(help: "Count the rows and delete nothing.")
  var dryRun = false

  func validate() throws { try author.requireName() }

  func run() async throws {
    try await Startup.withService(.forgetXcode) { service, actor in
      do {
        let author = try await author.author(actor, reason, in: service)
        let request = ForgetXcodeRequest(bundleID: bundle)
        print("\(try await service.perform(request, by: author, isDryRun: dryRun))".wrappedForTerminal())
      } catch {
        throw Startup.failure("forget-xcode: \(Startup.sentence(error))")
      }
    }
  }
}

/// `receiptd adopt`
struct AdoptCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "adopt",
    abstract: "Takes over the customers of an app that was live before receiptd.",
    discussion: """
      Reads what profiles, user_preferences and subscriptions claim, verifies each transaction with the App Store at \
      Apple's rates, and binds the purchases to their customers. Customers who paid before the first run and name \
      no transaction get an award. A run that was stopped continues; a further run is harmless. The exit status is 1 if claims had no answer.
      """)

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @Flag(help: "Ask the App Store and report, and write nothing.")
  var dryRun = false

  @Option(
    name: .customLong("from"),
    help: ArgumentHelp(
      "Import claims from this file: CSV with customer and original_transaction_id, receipt or signed_transaction; or "
        + "RevenueCat's transactions export.", valueName: "FILE.csv"))
  var file: String?

  @Option(
    help: ArgumentHelp(
      "Give customers whose client made user_preferences premium after the first adoption an award of this many days "
        + "(1 to 366). Without it they get none.", valueName: "DAYS"))
  var awardClientWrites: Int?

  @Flag(help: "Print the report as JSON.")
  var json = false

  func validate() throws {
    guard let days = awardClientWrites else { return }
    guard (1...366).contains(days) else {
      throw ValidationError("--award-client-writes must be 1 to 366 days")
    }
    guard file == nil else {
      throw ValidationError("--award-client-writes is for the app's own tables, and not for --from")
    }
  }

  func run() async throws {
    var csv: String?
    if let file {
      guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
        throw Startup.failure("adopt: cannot read \(file) as UTF-8 text")
      }
      csv = text
    }
    try await Startup.withService(.adopt) { service, _ in
      let progress = ProgressLine()
      let reports: [AdoptionReport]
      do {
        // A run that was stopped a moment ago may have used up this second's calls, and this process does not know.
        try await Task.sleep(for: .seconds(1))
        reports = try await service.adoption.adopt(
          bundleID: bundle, isDryRun: dryRun, csv: csv, clientAwardDays: awardClientWrites
        ) { app, done, total in
          progress.show("\(app): \(done) of \(total) claims")
        }
        progress.end()
      } catch let problem as CSVProblem {
        throw Startup.failure("adopt: \(file ?? ""): \(problem)")
      } catch let refusal as SupportRefusal {
        throw Startup.failure("adopt: \(refusal.description)")
      } catch {
        progress.end()
        throw Startup.failure("adopt: \(Startup.sentence(error)); run adopt again to continue")
      }
      if json {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        print(String(decoding: try encoder.encode(reports), as: UTF8.self))
      } else {
        for report in reports { print(report.description.wrappedForTerminal()) }
      }
      if reports.contains(where: { !$0.isComplete }) { throw ExitCode.failure }
    }
  }
}
