import Actions
import AppStore
import Configuration
import Customers
import Foundation
import HTTP
import JSON
import Logging
import Platform
import Postgres
import Proofs
import Subscriptions
import Work

/// Takes over the customers of one app from its legacy tables, or from a file.
///
/// Each claim is verified with the App Store and bound to its customer. A run that was stopped continues: the table
/// `adoptions` has the decisions.
struct AppAdoption: Sendable {
  let app: App
  let modes: ClientWriteModes
  let check: ClaimCheck
  let statusWriter: CustomerStatusWriter
  let pool: PostgresPool
  let clock: ServiceClock
  let isDryRun: Bool
  /// The length of an award, in days, for a claim that a client wrote after the first adoption to a table whose claims
  /// name no transactions; `nil` for no such awards.
  var clientAwardDays: Int?

  /// The lookups under way at a time. The App Store's rate limit is the real limit.
  private static let width = 32
  /// The attempts at a lookup that the App Store does not answer.
  private static let attempts = 4
  private static let backoff = Backoff(base: .seconds(1), maximum: .seconds(20), jitter: 0.5)

  /// Decides all claims that are open, and reports on all.
  /// - Parameters:
  ///   - file: the claims of a file; `nil` for the legacy tables.
  ///   - progress: receives how many claims are decided, and how many there are.
  /// - Throws: errors of the database. The next run continues.
  func run(
    file: [LegacyClaim]?, progress: @escaping @Sendable (_ done: Int, _ total: Int) -> Void
  ) async throws -> AdoptionReport {
    let run = try await AdoptionRun.begin(
      for: app, on: ProfileTable.all.filter { app.writeTo.contains($0.destination) }, modes: modes,
      isOfFile: file != nil, isDryRun: isDryRun, in: pool)
    var book = try await book(of: file, in: run)
    if file != nil { try await setAsideUnknownCustomers(&book, in: run) }
    let contested = book.contestedTransactions
    let open = book.open
    let total = book.claims.count
    if !isDryRun {
      for page in open.chunked(by: AdoptionRows.page) {
        try await write(
          page.filter { $0.award == nil && book.former[$0.key] == nil }
            .map { ($0, DecidedClaim.open) }, in: run)
      }
    }
    progress(total - open.count, total)
    var done = total - open.count
    var deferred: [(claim: LegacyClaim, purchase: ProvenPurchase)] = []
    try await withThrowingTaskGroup(of: (LegacyClaim, ClaimCheck.Resolution).self) { group in
      var waiting = open[...]
      func addNext() {
        guard let claim = waiting.popFirst() else { return }
        let isContested = contested.contains(claim.key.transactionID)
        let isKnown = book.former[claim.key] != nil
        group.addTask {
          (claim, try await decide(claim, isContested: isContested, isKnown: isKnown, in: run))
        }
      }
      for _ in 0..<Self.width { addNext() }
      while let (claim, resolution) = try await group.next() {
        switch resolution {
        case .decided(let decided): book.decide(claim.key, decided)
        case .purchase(let purchase): deferred.append((claim, purchase))
        }
        done += 1
        progress(done, total)
        addNext()
      }
    }
    try await decide(deferred, &book, in: run)
    var report = AdoptionReport(app.bundleID, book, isDryRun: isDryRun)
    if app.customer == .user { try await correctRows(book, &report) }
    try await run.finish(in: pool)
    return report
  }

  /// Writes down the claims that name a transaction and have no row in `adoptions` yet: an award or a purchase of
  /// another app of the table may replace them there before this app's claims are decided. Before the first adoption of
  /// the tables also all others: what it cannot decide is still a claim from before it.
  func noteClaims() async throws {
    guard app.customer == .user else { return }
    let tables = ProfileTable.all.filter { app.writeTo.contains($0.destination) }
    let first = try await AdoptionRun.begin(
      for: app, on: tables, modes: modes, isOfFile: false, isDryRun: true, in: pool)
    let legacy = LegacyClaims(
      app: app, modes: modes, pool: pool, clock: clock, firstRuns: [:], clientAwardDays: nil)
    let reading = try await legacy.read()
    let noted = (reading.claims + reading.waitingClaims).filter {
      first.firstStarts[$0.source.rawValue] == nil || !$0.key.transactionID.isEmpty
    }
    for page in noted.chunked(by: AdoptionRows.page) {
      _ = try await pool.query(AdoptionRows.note(page, of: app, at: clock.now()))
    }
  }

  // MARK: Read

  /// The claims, and what earlier runs have decided, as it is now.
  private func book(of file: [LegacyClaim]?, in run: AdoptionRun) async throws -> ClaimBook {
    var book = ClaimBook()
    if let file {
      for claim in file { book.add(claim) }
    } else {
      let legacy = LegacyClaims(
        app: app, modes: modes, pool: pool, clock: clock, firstRuns: run.firstStarts,
        clientAwardDays: clientAwardDays)
      let reading = try await legacy.read()
      for claim in reading.claims { book.add(claim) }
      (book.denied, book.withheld) = (reading.denied, reading.withheld)
      book.waiting = reading.waiting
    }
    var last = (customer: "", transactionID: "")
    while true {
      let instant = clock.now()
      let rows = try await pool.query(AdoptionRows.decided(in: app, after: last, at: instant))
      let purchases = try await check.stored(
        rows.compactMap { try $0.decode("purchase_id", as: String?.self) })
      for row in rows {
        last = (try row.decode("customer"), try row.decode("original_transaction_id"))
        guard let customer = try? app.customer(named: last.customer),
          let source = LegacyClaim.Source(rawValue: try row.decode("source")),
          let verdict = ClaimVerdict(rawValue: try row.decode("outcome"))
        else { continue }
        let key = LegacyClaim.Key(customer: customer, transactionID: last.transactionID)
        let isOfRun = book.claims[key] != nil || file == nil && source != .file
        // An award that was not given is read from its table.
        guard isOfRun, verdict == .awarded || !key.transactionID.isEmpty else { continue }
        book.add(LegacyClaim(key: key, source: source))
        guard verdict.isFinal else { continue }
        var decided = DecidedClaim(
          verdict, try row.decode("detail"), purchaseID: try row.decode("purchase_id"))
        // Renewals, refunds, transfers and the end of the paid time since.
        if let stored = decided.purchaseID.flatMap({ purchases[$0] }) {
          decided = DecidedClaim(stored, for: customer, at: instant)
        }
        if try row.decode("is_award_over", as: Bool.self) { decided.verdict = .awardEnded }
        let isOfThisRun = try run.id.map { try row.decode("run_id", as: Int64?.self) == $0 } ?? false
        if decided.verdict.mayHaveChanged && !isOfThisRun {
          book.former[key] = decided
        } else if decided.verdict.isFinal {
          book.decide(key, decided)
        }
      }
      if rows.count < AdoptionRows.page { return book }
    }
  }

  /// Decides the claims of users whom the app does not have: a purchase that is bound to such a user is lost to its
  /// customer.
  private func setAsideUnknownCustomers(_ book: inout ClaimBook, in run: AdoptionRun) async throws {
    guard app.customer == .user, let users = try await KnownUsers.find(for: app, in: pool) else { return }
    for page in book.open.chunked(by: AdoptionRows.page) {
      let known = try await users.among(page.compactMap(\.key.customer.userID), in: pool)
      let unknown = page.filter { claim in claim.key.customer.userID.map { !known.contains($0) } ?? false }
        .map { (claim: $0, decided: DecidedClaim(.unknownCustomer)) }
      for (claim, decided) in unknown { book.decide(claim.key, decided) }
      if !isDryRun { try await write(unknown, in: run) }
    }
  }

  // MARK: Decide

  /// Decides a claim, unless it names another transaction of a purchase than the original one: others may claim that
  /// purchase by other ids, so it waits until all are looked up.
  ///
  /// - Parameter isKnown: whether an earlier run has a verdict, which stays if the App Store does not answer.
  private func decide(
    _ claim: LegacyClaim, isContested: Bool, isKnown: Bool, in run: AdoptionRun
  ) async throws -> ClaimCheck.Resolution {
    if let award = claim.award {
      do {
        return .decided(try await give(award, for: claim, in: run))
      } catch let error as PostgresError where error.isLockNotGranted {
        return .decided(DecidedClaim(.failed, "Another transaction held the customer's lock."))
      }
    }
    var resolution = try await verify(claim, isContested: isContested)
    for attempt in 1..<Self.attempts where !isKnown {
      guard case .decided(let decided) = resolution, decided.verdict == .failed, hasKey else { break }
      try await Task.sleep(for: Self.backoff.delay(afterFailures: attempt, random: .random(in: 0...1)))
      resolution = try await verify(claim, isContested: isContested)
    }
    guard case .decided(let decided) = resolution else { return resolution }
    if !isDryRun, decided.verdict != .failed || !isKnown { try await write([(claim, decided)], in: run) }
    return resolution
  }

  /// Decides the claims that name another transaction of a purchase than the original one. A claim of the original
  /// transaction binds the purchase; among equal ones of several customers none does. Either customer may have paid, so
  /// a claim that does not bind is contested until the owner has a proof, or support transfers the purchase.
  private func decide(
    _ deferred: [(claim: LegacyClaim, purchase: ProvenPurchase)], _ book: inout ClaimBook,
    in run: AdoptionRun
  ) async throws {
    let claimants = Dictionary(grouping: deferred, by: \.purchase.originalTransactionID).mapValues { same in
      Set(same.map(\.claim.key.customer))
    }
    let namers = book.claimants(of: Set(claimants.keys))
    for (claim, purchase) in deferred {
      let id = purchase.originalTransactionID
      let strongest = namers[id] ?? claimants[id] ?? []
      var decided = await check.decide(
        purchase, for: claim.key.customer, binding: strongest.count == 1 ? strongest.first : nil,
        isDryRun: isDryRun)
      if decided.verdict == .anotherCustomer, namers[id] != nil, try await !check.isProven(id) {
        decided = DecidedClaim(
          .claimedTwice, "Another customer names the original transaction.", purchaseID: id)
      }
      if !isDryRun, decided.verdict != .failed || book.former[claim.key] == nil {
        try await write([(claim, decided)], in: run)
      }
      book.decide(claim.key, decided)
    }
  }

  private var hasKey: Bool { check.store.apis[app.bundleID] != nil }

  private func verify(_ claim: LegacyClaim, isContested: Bool) async throws -> ClaimCheck.Resolution {
    let (id, customer) = (claim.key.transactionID, claim.key.customer)
    guard id.isTransactionID else {
      return .decided(DecidedClaim(.unknown, "The id is not a transaction id of the App Store."))
    }
    let resolution =
      if let purchase = claim.purchase { ClaimCheck.Resolution.purchase(purchase) } else {
        try await check.resolve(id, for: customer, in: [app], asksAgain: true)
      }
    guard case .purchase(let purchase) = resolution, purchase.originalTransactionID == id else {
      return resolution
    }
    return .decided(
      await check.decide(
        purchase, for: customer, binding: isContested ? nil : customer, isDryRun: isDryRun))
  }

  /// Gives an award and records the decision in one transaction, so that a second run gives none. The row must still
  /// make the claim: since it was read, the customer may have been erased.
  private func give(
    _ award: LegacyClaim.Award, for claim: LegacyClaim, in run: AdoptionRun
  ) async throws -> DecidedClaim {
    let reason = award.reason + (claim.isOfClient ? ", written by a client after the first adoption" : "")
    let decided = DecidedClaim(.awarded, reason)
    if isDryRun { return decided }
    let customer = claim.key.customer
    let instant = clock.now()
    let author = SupportAuthor.adoption(reason)
    let grant = Grant(id: UUID(), tier: award.tier, startsAt: instant, endsAt: award.endsAt)
    let users = customer.userID.map { [$0] } ?? []
    let table = claim.source == .profiles ? ProfileTable.profiles : .userPreferences
    let others = modes.bundleIDs(notWritingTo: [table])
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([customer]),
        AdoptionRows.standing(of: users, in: app, on: table, modes: modes, at: instant),
        AdoptionRows.waiting(users, in: table),
        claim.source == .profiles
          ? AdoptionRows.profiles(of: customer.userID, others: others, at: instant)
          : AdoptionRows.userPreferences(of: customer.userID),
      ])
      // Another run, or a purchase that came meanwhile.
      guard answers[1].isEmpty else { return decided }
      guard answers[2].isEmpty, !answers[3].isEmpty else {
        return DecidedClaim(.failed, "The row changed after it was read.")
      }
      _ = try await connection.pipeline([
        GrantRows.insert(grant, to: customer, of: app, by: author),
        SupportActionRows.insert(
          [
            SupportAction(
              name: "adopt", bundleID: app.bundleID, to: customer,
              details: [
                "grant": .string(grant.id.uuidString.lowercased()), "tier": .string(award.tier),
              ])
          ], by: author, at: instant),
        AdoptionRows.write([(claim, decided)], of: app, in: run, grant: grant.id, at: instant),
      ])
      try await statusWriter.write([customer], of: app.bundleID, at: instant, on: connection)
      return decided
    }
  }

  private func write(
    _ claims: [(claim: LegacyClaim, decided: DecidedClaim)], in run: AdoptionRun
  ) async throws {
    guard !claims.isEmpty else { return }
    _ = try await pool.query(AdoptionRows.write(claims, of: app, in: run, at: clock.now()))
  }

  // MARK: Rows

  /// Writes the true status over false claims and other values of old builds, except in a table that accepts client
  /// writes.
  private func correctRows(_ book: ClaimBook, _ report: inout AdoptionReport) async throws {
    var falseClaims = 0
    for page in book.falseClaims(in: .profiles).chunked(by: AdoptionRows.page) {
      falseClaims += try await pool.query(
        AdoptionRows.stillClaiming(page.compactMap(\.customer.userID), page.map(\.transactionID))
      ).count
    }
    let correction = ProfileCorrection(app: app, modes: modes, statusWriter: statusWriter, pool: pool)
    let tables = isDryRun ? [] : try await correction.tables()
    guard tables.contains(where: { $0.destination == .profiles }) else {
      report.falseClaimsLeft = falseClaims
      report.rowsCorrected = try await correction.run(tables, also: book.denied)
      return
    }
    report.falseClaimsCleared = falseClaims
    report.rowsCorrected = max(
      0, try await correction.run(tables, also: book.denied) - falseClaims)
  }
}

/// A run of `receiptd adopt`: a row of `adoption_runs`. A run that was stopped is continued by the next one.
struct AdoptionRun: Sendable {
  /// `nil` for a dry run, which has no row.
  var id: Int64?
  /// The names of the app's tables.
  var tables: [String]
  /// For each of the app's tables, by its name, the start of the first run on it that reached its end, whichever app it
  /// was of, by the database's clock; none for a table without such a run. A run decides all claims that it finds, so
  /// what is open afterwards was written since.
  var firstStarts: [String: Date]

  /// Continues the app's last run, if it was stopped, else begins one.
  ///
  /// Runs of an earlier version do not tell their tables: any app may have had these tables, except for one of which
  /// the configuration says otherwise.
  /// - Parameters:
  ///   - tables: the app's tables.
  ///   - isOfFile: whether it reads a file in place of the legacy tables.
  static func begin(
    for app: App, on tables: [ProfileTable], modes: ClientWriteModes, isOfFile: Bool, isDryRun: Bool,
    in pool: PostgresPool
  ) async throws -> AdoptionRun {
    let names = tables.map(\.destination.rawValue)
    let others = modes.bundleIDs(notWritingTo: tables)
    let isOfRun: Postgres.Query =
      "is_of_file = \(isOfFile) AND bundle_id = \(app.bundleID) AND finished_at IS NULL"
    return try await pool.withTransaction { connection in
      if !isDryRun {
        _ = try await connection.pipeline([
          // Two runs that begin at once would each insert a row, and only one of them would end.
          AdvisoryLock.acquire(.adoption, [app.bundleID]),
          """
          INSERT INTO adoption_runs (bundle_id, is_of_file) SELECT \(app.bundleID), \(isOfFile)
          WHERE NOT EXISTS (SELECT FROM adoption_runs WHERE \(isOfRun))
          """,
        ])
      }
      let answers = try await connection.pipeline([
        "SELECT max(id) AS id FROM adoption_runs WHERE \(isOfRun)",
        """
        SELECT own.name, min(started_at) AS first_start FROM unnest(\(names)::text[]) AS own (name)
        JOIN adoption_runs ON NOT is_of_file AND finished_at IS NOT NULL
          AND coalesce(own.name = ANY(tables), bundle_id <> ALL(\(others)))
        GROUP BY own.name
        """,
      ])
      return AdoptionRun(
        id: try isDryRun ? nil : answers[0][0].decode("id", as: Int64.self), tables: names,
        firstStarts: Dictionary(
          uniqueKeysWithValues: try answers[1].map {
            (try $0.decode("name", as: String.self), try $0.decode("first_start", as: Date.self))
          }))
    }
  }

  func finish(in pool: PostgresPool) async throws {
    guard let id else { return }
    _ = try await pool.query(
      "UPDATE adoption_runs SET finished_at = now(), tables = \(tables) WHERE id = \(id)")
  }
}

extension SupportAuthor {
  /// The author of awards to customers from before receiptd.
  static func adoption(_ reason: String) -> SupportAuthor { SupportAuthor(rule: "adopt", reason: reason) }
}
