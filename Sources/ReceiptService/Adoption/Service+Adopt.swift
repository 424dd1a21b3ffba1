import Configuration
import Foundation
import Postgres
import Subscriptions

extension Service {
  /// Takes over the customers of apps that were live before receiptd: see ``Adoption``.
  ///
  /// - Parameters:
  ///   - bundleID: only this app; `nil` for all apps.
  ///   - isDryRun: writes nothing, but asks the App Store.
  ///   - csv: the content of a CSV file whose claims replace those of the tables; for one app.
  ///   - clientAwardDays: see ``Adoption/clientAwardDays``.
  ///   - progress: receives the app, how many claims are decided, and how many there are.
  /// - Returns: a report for each app.
  /// - Throws: ``SupportRefusal`` for an unknown app, ``ClaimFileProblem``, and errors of the database.
  public func adopt(
    bundleID: String? = nil, isDryRun: Bool, csv: String? = nil, clientAwardDays: Int? = nil,
    progress: @escaping @Sendable (_ bundleID: String, _ done: Int, _ total: Int) -> Void = { _, _, _ in }
  ) async throws -> [AdoptionReport] {
    let apps = try bundleID.map { [try support.app(named: $0)] } ?? support.catalog.apps
    guard csv == nil || apps.count == 1 else {
      throw SupportRefusal.invalid("a file is for one app: name it with --bundle")
    }
    var reports: [AdoptionReport] = []
    for app in apps {
      let file = try csv.map { try ClaimFile($0, of: app, proofs: validation.proofs) }
      let adoption = Adoption(
        app: app, modes: claimVerification.modes, check: claimVerification.check,
        statusWriter: support.statusWriter, pool: pool, clock: clock, isDryRun: isDryRun,
        clientAwardDays: clientAwardDays)
      var report = try await adoption.run(file: file?.claims) { progress(app.bundleID, $0, $1) }
      report.skipped = file?.skipped ?? [:]
      reports.append(report)
    }
    return reports
  }
}
