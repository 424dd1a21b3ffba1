import ArgumentParser

@main
struct AppStoreSimulatorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "appstore-simulator",
    abstract: "A simulated App Store: sells, renews, refunds, signs, notifies and serves the Server API.",
    subcommands: [Serve.self, Control.self, Authority.self, CorpusCommand.self])
}
