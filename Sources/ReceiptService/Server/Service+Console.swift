import Actions
import Configuration
import Console
import Deliveries
import Numbers
import Support

extension Service {
  /// The pages for people. They act through ``perform(_:by:isDryRun:)``, as commands and the support API do.
  var console: Console {
    Console(
      Console.Parts(
        catalog: catalog, pool: pool, desk: support, outbox: deliveries.outbox, people: people,
        figures: numbers.figures, actions: supportActions.flatMap(\.forms), server: serverFacts,
        rateLimits: rateLimits,
        singleSignOn: singleSignOn,
        clock: clock, logger: logger,
        bound: { operation, page in
          try await self.sharedResources.supportPlaces.run(operation, page)
        }))
  }

  private var singleSignOn: SingleSignOn? {
    let settings = sharedResources.settings
    guard let header = settings.consoleUserHeader, let host = settings.consoleHost else { return nil }
    return SingleSignOn(header: header, from: settings.trustedProxies, host: host)
  }

  private var serverFacts: ServerFacts {
    ServerFacts(version: BuildInfo.current.version, configurationDigest: configurationDigest) {
      var lines: [ServerFacts.Check] = []
      let doctor = Doctor(environment: self.sharedResources.settings.environment, clock: self.clock)
      _ = await doctor.check { result in
        lines.append(
          ServerFacts.Check(
            subject: result.subject, isOK: result.isOK, isWarning: result.isWarning, message: result.message,
            remedy: result.remedy))
      }
      return lines
    }
  }
}
