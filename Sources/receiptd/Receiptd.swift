import ArgumentParser
import Configuration
import ReceiptService

/// The command line. Each command is in a file of its own.
@main
struct Receiptd: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "receiptd",
    abstract: "Knows who has paid in your iOS apps, beside your PostgreSQL.",
    discussion: "Settings come from the environment; the README lists them.",
    version: "receiptd \(BuildInfo.version)",
    subcommands: [
      ServeCommand.self, MigrateCommand.self, ReconcileCommand.self, ReplayCommand.self, DoctorCommand.self,
      GrantCommand.self, RevokeGrantCommand.self,
      ExtendTrialCommand.self, ResetDeviceSecretCommand.self, TransferCommand.self, RefundAnswerCommand.self,
      ExtendRenewalCommand.self, FreeAccessCommand.self, RequeueCommand.self, ReplayEventsCommand.self,
      FindCommand.self,
      CustomerCommand.self, RefreshCommand.self,
      ExportCustomerCommand.self, EraseCustomerCommand.self,
      GrandfatherCommand.self, AdoptCommand.self,
      PeopleCommand.self, KpiCommand.self, RotateEntitlementKeyCommand.self, VersionCommand.self,
    ])
}
