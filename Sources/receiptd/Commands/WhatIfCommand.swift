import Actions
import ArgumentParser
import Configuration
import Foundation
import HTTP
import Numbers
import Platform
import ReceiptService
import Subscriptions
import Text

/// `receiptd what-if`
struct WhatIfCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "what-if",
    abstract: "Shows who would gain or lose access under another configuration.",
    discussion: """
      Folds the purchases of all customers under the other apps.json and compares the result with what they have now, and \
      with what time will change. It lists the kinds of changes, the gravest first, with the monthly revenue that the customers stand for. \
      It changes nothing and may run beside a server. Trials that run keep their end. Children's devices follow their parents: it counts those that would be paused or opened.
      """)

  @Argument(help: ArgumentHelp("The other configuration.", valueName: "NEW-APPS.json"))
  var file: String

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @Option(help: "The time of the comparison, such as 2026-12-01T00:00:00Z. The default is now.")
  var at: String?

  @Option(
    help: ArgumentHelp("Write a line for each customer who would notice to this file.", valueName: "FILE"))
  var csv: String?

  func validate() throws {
    if let at, RFC3339.date(from: at) == nil {
      throw ValidationError("--at must be a time such as 2026-12-01T00:00:00Z.")
    }
  }

  func run() async throws {
    let other: AppCatalog
    do {
      other = try AppCatalog(contentsOf: file)
    } catch {
      throw Startup.failure("what-if: \(error)")
    }
    let output = try csv.map(Self.open)
    try await Startup.withService(.whatIf) { service, _ in
      let progress = ProgressLine()
      do {
        try output?.write(contentsOf: Data((WhatIf.Finding.csvColumns + "\r\n").utf8))
        let reports = try await service.compare(
          with: other, bundleID: bundle, at: at.flatMap { RFC3339.date(from: $0) }
        ) { app, done in
          progress.show("\(app.bundleID): \(done) customers compared")
        } found: { finding in
          try output?.write(contentsOf: Data((finding.csv + "\r\n").utf8))
        }
        progress.end()
        for report in reports { print(report) }
      } catch let problem as WhatIfProblem {
        progress.end()
        throw Startup.failure("what-if: \(problem)")
      } catch {
        progress.end()
        throw Startup.failure("what-if: \(Startup.sentence(error))")
      }
    }
  }

  /// Opens a new or empty file that the owner alone may read: it names customers.
  private static func open(_ path: String) throws -> FileHandle {
    let descriptor = Foundation.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    guard descriptor >= 0 else {
      throw Startup.failure("what-if: cannot write \(path): \(String(cString: strerror(errno)))")
    }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    // A file that existed keeps its mode.
    if !Platform.makePrivate(descriptor) {
      throw Startup.failure("what-if: cannot make \(path) private: \(String(cString: strerror(errno)))")
    }
    return file
  }
}
