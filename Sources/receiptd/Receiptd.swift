import ArgumentParser

/// The command line. Each command stands in a file of its own.
@main
struct Receiptd: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "receiptd",
    abstract: "Knows who has paid in your iOS apps, beside your PostgreSQL.",
    discussion: "Settings come from the environment; the README lists them.",
    subcommands: [
      Serve.self, Migrate.self, Reconcile.self, Replay.self, Doctor.self, Grant.self, RevokeGrant.self,
      ExtendTrial.self, ResetDeviceSecret.self, Transfer.self, FreeAccess.self, Requeue.self, Customer.self,
      Grandfather.self,
      Kpi.self, RotateEntitlementKey.self, Partition.self,
    ])
}
