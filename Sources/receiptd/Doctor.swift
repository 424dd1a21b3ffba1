import ArgumentParser
import FoundationEssentials
import Glibc
import ReceiptService

/// `receiptd doctor`
struct Doctor: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Checks configuration, roots, database, clock and credentials.",
    discussion: "Says a line of each, and what to do. Ends with status 0 only if all is well.")

  func run() async throws {
    let doctor = ReceiptService.Doctor(environment: ProcessInfo.processInfo.environment)
    let isWell = await doctor.examine { finding in
      print(finding.line)
      // Also into a file or a pipe, before the next one is waited for.
      fflush(nil)
    }
    if !isWell { throw ExitCode.failure }
  }
}
