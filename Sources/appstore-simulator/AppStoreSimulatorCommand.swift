import ArgumentParser

@main
struct AppStoreSimulatorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "appstore-simulator",
    abstract: "A stand-in for the App Store: sells, renews, refunds, signs, notifies and answers.",
    discussion: """
      `serve` runs it. The other commands make things happen in one that runs, by its control API \
      (docs/simulator.md), and print what it answers.
      """,
    subcommands: [
      Authority.self, Serve.self, Sign.self, CorpusCommand.self, Webhook.self, Clock.self,
    ],
    groupedSubcommands: [
      CommandGroup(
        name: "Customers",
        subcommands: [
          Buy.self, GetApp.self, AutoRenew.self, ChangeProduct.self, Redeem.self, AcceptPrice.self,
          Share.self, RescindConsent.self, ExternalPurchase.self,
        ]),
      CommandGroup(
        name: "Renewals",
        subcommands: [
          Renew.self, FailRenewal.self, Recover.self, ExpireGrace.self, Expire.self, Extend.self,
          FailExtension.self, AnnouncePrice.self, ChangePrice.self, UpdateMetadata.self, Migrate.self,
        ]),
      CommandGroup(
        name: "Refunds",
        subcommands: [
          Refund.self, DeclineRefund.self, ReverseRefund.self, RequestConsumption.self, Revoke.self,
        ]),
      CommandGroup(name: "Trouble", subcommands: [Fault.self, DeliveryFault.self, Faults.self]),
      CommandGroup(
        name: "Looking on",
        subcommands: [
          Truth.self, Notifications.self, Send.self, Test.self, Requests.self, Consumption.self,
        ]),
    ])
}
