import ArgumentParser

@main
struct AppStoreSimulatorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "appstore-simulator",
    abstract: "A simulated App Store: sells, renews, refunds, signs, notifies and serves the Server API.",
    discussion: """
      `serve` runs it. The other commands call the control API of a running simulator \
      (docs/simulator.md) and print its response.
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
          FailExtension.self, AnnouncePrice.self,
        ]),
      CommandGroup(
        name: "Refunds",
        subcommands: [
          Refund.self, DeclineRefund.self, ReverseRefund.self, RequestConsumption.self, Revoke.self,
        ]),
      CommandGroup(name: "Faults", subcommands: [Fault.self, DeliveryFault.self, Faults.self]),
      CommandGroup(
        name: "Inspection",
        subcommands: [
          Truth.self, Notifications.self, Send.self, Test.self, Requests.self, Consumption.self,
        ]),
    ])
}
