import Actions
import AppStore
import Configuration
import Customers
import Ledger
import Logging
import Postgres
import Proofs
import Requests
import Subscriptions
import Text
import Work

/// Claims that the App Store has to confirm: of customers from before receiptd, and of old builds that still write to
/// the app's own tables.
package struct AdoptionRoom: Room {
  /// The modes in which clients may write to the apps' own tables.
  package let modes: ClientWriteModes
  let verification: ClaimVerification
  private let catalog: AppCatalog
  private let proofs: ProofVerifier

  /// - Parameter appsWithKey: the apps with a key for the App Store Server API.
  package init(
    catalog: AppCatalog, appsWithKey: Set<String>, proofs: ProofRoom, ledger: LedgerWriter,
    logKey: LogKey, _ work: WorkContext
  ) {
    self.catalog = catalog
    self.proofs = proofs.verifier
    modes = ClientWriteModes(catalog: catalog, appsWithKey: appsWithKey)
    verification = ClaimVerification(
      modes: modes,
      check: ClaimCheck(
        store: proofs.oldProofs.lookup, ledger: ledger, pool: work.pool, clock: work.clock),
      logKey: logKey, work: work)
  }

  package var jobs: [BackgroundJob] { [verification.job] }

  /// Takes over the customers of apps that were live before receiptd: see ``AppAdoption``.
  ///
  /// - Parameters:
  ///   - bundleID: only this app; `nil` for all apps.
  ///   - isDryRun: writes nothing, but asks the App Store.
  ///   - csv: the content of a CSV file whose claims replace those of the tables; for one app.
  ///   - clientAwardDays: see ``AppAdoption/clientAwardDays``.
  ///   - progress: receives the app, how many claims are decided, and how many there are.
  /// - Returns: a report for each app.
  /// - Throws: ``SupportRefusal`` for an unknown app, ``CSVProblem``, and errors of the database.
  package func adopt(
    bundleID: String? = nil, isDryRun: Bool, csv: String? = nil, clientAwardDays: Int? = nil,
    progress: @escaping @Sendable (_ bundleID: String, _ done: Int, _ total: Int) -> Void = { _, _, _ in }
  ) async throws -> [AdoptionReport] {
    let apps = try bundleID.map { [try catalog.app(named: $0)] } ?? catalog.apps
    guard csv == nil || apps.count == 1 else {
      throw SupportRefusal.invalid("a file is for one app: name it with --bundle")
    }
    func adoption(of app: App) -> AppAdoption {
      AppAdoption(
        app: app, modes: modes, check: verification.check,
        statusWriter: CustomerStatusWriter(
          catalog: catalog, clock: verification.clock, logger: verification.logger),
        pool: verification.pool, clock: verification.clock, isDryRun: isDryRun,
        clientAwardDays: clientAwardDays)
    }
    let files = try csv.map { csv in try apps.map { try ClaimFile(csv, of: $0, proofs: proofs) } }
    if !isDryRun { for app in catalog.apps { try await adoption(of: app).noteClaims() } }
    var reports: [AdoptionReport] = []
    for app in apps {
      let file = files?.first
      var report = try await adoption(of: app).run(file: file?.claims) { progress(app.bundleID, $0, $1) }
      report.skipped = file?.skipped ?? [:]
      reports.append(report)
    }
    return reports
  }
}
