import ArgumentParser
import Foundation
import ReceiptService

/// `receiptd doctor`
struct DoctorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Checks configuration, roots, database, clock and credentials.",
    discussion: "Prints a line for each check, with the remedy. The exit status is 0 only if all checks pass."
  )

  func run() async throws {
    let doctor = ReceiptService.Doctor(environment: ProcessInfo.processInfo.environment)
    let isOK = await doctor.check { result in
      print(result.line.wrappedForTerminal())
      // Flush each line, because the next check may take long and the output may be a pipe.
      fflush(nil)
    }
    if !isOK { throw ExitCode.failure }
  }
}
