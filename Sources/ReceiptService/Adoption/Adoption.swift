import Foundation
import HTTP
import Logging
import Platform
import Postgres
import Subscriptions

/// Takes over the customers of one app from its legacy tables, or from a file.
///
/// Each claim is verified with the App Store and bound to its customer. A run that was stopped continues: the table
/// `adoptions` has the decisions.
struct Adoption: Sendable {
  let app: App
  let modes: ClientWriteModes
  let check: ClaimCheck
  let statusWriter: CustomerStatusWriter
  let pool: PostgresPool
  let clock: ServiceClock
  let isDryRun: Bool

  /// The lookups under way at a time. The App Store's rate limit is the real limit.
  private static let width = 32
  /// The attempts at a lookup that the App Store does not answer.
  private static let attempts = 4
  private static let backoff = Backoff(base: .seconds(1), maximum: .seconds(20), jitter: 0.5)
  /// After this time a run asks again about a transaction that the App Store did not know.
  private static let recheck: TimeInterval = 86_400

  /// Decides all claims that are open, and reports on all.
  /// - Parameters:
  ///   - file: the claims of a file; `nil` for the legacy tables.
  ///   - progress: receives how many claims are decided, and how many there are.
  /// - Throws: errors of the database. The next run continues.
  func run(
    file: [LegacyClaim]?, progress: @escaping @Sendable (_ done: Int, _ total: Int) -> Void
  ) async throws -> AdoptionReport {
    var book = try await book(of: file)
    let contested = book.contestedTransactions
    let open = book.open
    let total = book.claims.count
    if !isDryRun {
      for page in open.chunked(by: AdoptionRows.page) {
        try await write(
          page.filter { $0.award == nil }.map { ($0, DecidedClaim(.failed, "not decided yet")) })
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
        group.addTask { (claim, try await decide(claim, isContested: isContested)) }
      }
      for _ in 0..<Self.width { addNext() }
      while let (claim, resolution) = try await group.next() {
        switch resolution {
        case .decided(let decided): book.decisions[claim.key] = decided
        case .purchase(let purchase): deferred.append((claim, purchase))
        }
        done += 1
        progress(done, total)
        addNext()
      }
    }
    try await decide(deferred, &book)
    var report = AdoptionReport(app.bundleID, book, isDryRun: isDryRun)
    try await clearFalseClaims(book, &report)
    if !isDryRun, app.customer == .user {
      let correction = ProfileCorrection(
        app: app, modes: modes, statusWriter: statusWriter, pool: pool)
      report.rowsCorrected = try await correction.run()
    }
    return report
  }

  // MARK: Read

  /// The claims, and what earlier runs have decided.
  private func book(of file: [LegacyClaim]?) async throws -> ClaimBook {
    var book = ClaimBook()
    let claims = if let file { file } else { try await legacyClaims.read() }
    for claim in claims { book.add(claim) }
    var last = (customer: "", transactionID: "")
    while true {
      let rows = try await pool.query(AdoptionRows.decided(in: app, after: last))
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
        if isFinal(verdict, at: try row.decode("at")) {
          book.decisions[key] = DecidedClaim(verdict, try row.decode("detail"))
        }
      }
      if rows.count < AdoptionRows.page { return book }
    }
  }

  private var legacyClaims: LegacyClaims {
    LegacyClaims(app: app, modes: modes, pool: pool, clock: clock)
  }

  private func isFinal(_ verdict: ClaimVerdict, at instant: Date) -> Bool {
    switch verdict {
    case .failed: false
    // A further claim, or support, may have changed it.
    case .claimedTwice: false
    case .unknown: clock.now().timeIntervalSince(instant) < Self.recheck
    case .bound, .expired, .refunded, .notCounted, .anotherCustomer, .awarded: true
    }
  }

  // MARK: Decide

  /// Decides a claim, unless it names another transaction of a purchase than the original one: others may claim that
  /// purchase by other ids, so it waits until all are looked up.
  private func decide(_ claim: LegacyClaim, isContested: Bool) async throws -> ClaimCheck.Resolution {
    if let award = claim.award { return .decided(try await give(award, for: claim)) }
    var resolution = try await verify(claim, isContested: isContested)
    for attempt in 1..<Self.attempts {
      guard case .decided(let decided) = resolution, decided.verdict == .failed, hasKey else { break }
      try await Task.sleep(for: Self.backoff.delay(afterFailures: attempt, random: .random(in: 0...1)))
      resolution = try await verify(claim, isContested: isContested)
    }
    if !isDryRun, case .decided(let decided) = resolution { try await write([(claim, decided)]) }
    return resolution
  }

  /// Decides the claims that name another transaction of a purchase than the original one. A claim of the original
  /// transaction is stronger; among equal ones of several customers none binds the purchase.
  private func decide(
    _ deferred: [(claim: LegacyClaim, purchase: ProvenPurchase)], _ book: inout ClaimBook
  ) async throws {
    let claimants = Dictionary(grouping: deferred, by: \.purchase.originalTransactionID).mapValues { same in
      Set(same.map(\.claim.key.customer))
    }
    let namers = book.claimants(of: Set(claimants.keys))
    for (claim, purchase) in deferred {
      let id = purchase.originalTransactionID
      let strongest = namers[id] ?? claimants[id] ?? []
      let decided = await check.decide(
        purchase, for: claim.key.customer, binding: strongest.count == 1 ? strongest.first : nil,
        isDryRun: isDryRun)
      if !isDryRun { try await write([(claim, decided)]) }
      book.decisions[claim.key] = decided
    }
  }

  private var hasKey: Bool { check.store.apis[app.bundleID] != nil }

  private func verify(_ claim: LegacyClaim, isContested: Bool) async throws -> ClaimCheck.Resolution {
    let (id, customer) = (claim.key.transactionID, claim.key.customer)
    guard (1...20).contains(id.utf8.count), id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      return .decided(DecidedClaim(.unknown, "The id is not a transaction id of the App Store."))
    }
    let resolution =
      if let purchase = claim.purchase { ClaimCheck.Resolution.purchase(purchase) } else {
        try await check.resolve(id, for: customer, in: [app])
      }
    guard case .purchase(let purchase) = resolution, purchase.originalTransactionID == id else {
      return resolution
    }
    return .decided(
      await check.decide(
        purchase, for: customer, binding: isContested ? nil : customer, isDryRun: isDryRun))
  }

  /// Gives an award and records the decision in one transaction, so that a second run gives none.
  private func give(_ award: LegacyClaim.Award, for claim: LegacyClaim) async throws -> DecidedClaim {
    let decided = DecidedClaim(.awarded, award.reason)
    if isDryRun { return decided }
    let customer = claim.key.customer
    let instant = clock.now()
    let author = SupportAuthor.adoption(award.reason)
    let grant = Grant(id: UUID(), tier: award.tier, startsAt: instant, endsAt: award.endsAt)
    try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([customer]),
        AdoptionRows.known(customer.userID.map { [$0] } ?? [], in: app, at: instant),
      ])
      // Another run, or a purchase that came meanwhile.
      guard answers[1].isEmpty else { return }
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
        AdoptionRows.write([(claim, decided)], of: app, grant: grant.id, at: instant),
      ])
      try await statusWriter.write([customer], of: app.bundleID, at: instant, on: connection)
    }
    return decided
  }

  private func write(_ claims: [(LegacyClaim, DecidedClaim)]) async throws {
    guard !claims.isEmpty else { return }
    _ = try await pool.query(
      AdoptionRows.write(claims.map { (claim: $0.0, decided: $0.1) }, of: app, at: clock.now()))
  }

  // MARK: False claims

  /// Writes the true status over claims that proved false.
  ///
  /// While the table accepts client writes it leaves them: the old build would write them again.
  private func clearFalseClaims(_ book: ClaimBook, _ report: inout AdoptionReport) async throws {
    let keys = book.falseClaims(in: .profiles)
    guard !keys.isEmpty,
      let stored = try await ClientWriteModes.read(pool).first(where: { $0.table == "profiles" })
    else { return }
    let isAccepting = modes.mode(of: .profiles, existedBefore: stored.existedBefore) == .accept
    for page in keys.chunked(by: AdoptionRows.page) {
      let users = try await pool.query(
        AdoptionRows.stillClaiming(page.compactMap(\.customer.userID), page.map(\.transactionID))
      ).map { try $0.decode("user_id", as: UUID.self) }
      if isAccepting || isDryRun {
        report.falseClaimsLeft += users.count
        continue
      }
      for user in users {
        let instant = clock.now()
        try await pool.withTransaction { connection in
          _ = try await connection.query(CustomerStatusWriter.lock([.user(user)]))
          try await statusWriter.write([.user(user)], of: app.bundleID, at: instant, on: connection)
        }
        report.falseClaimsCleared += 1
      }
    }
  }
}

/// The claims of a run with their decisions.
struct ClaimBook: Sendable {
  private(set) var claims: [LegacyClaim.Key: LegacyClaim] = [:]
  var decisions: [LegacyClaim.Key: DecidedClaim] = [:]

  /// Adds a claim; one that is there already stays.
  mutating func add(_ claim: LegacyClaim) {
    if claims[claim.key] == nil { claims[claim.key] = claim }
  }

  /// The claims without a decision, in a fixed order.
  var open: [LegacyClaim] {
    claims.values.filter { decisions[$0.key] == nil }.sorted {
      ($0.key.transactionID, $0.key.customer.id) < ($1.key.transactionID, $1.key.customer.id)
    }
  }

  /// The transactions that several customers claim.
  var contestedTransactions: Set<String> {
    let byTransaction = Dictionary(grouping: claims.keys.lazy.filter { !$0.transactionID.isEmpty }) {
      $0.transactionID
    }
    return Set(byTransaction.lazy.filter { $0.value.count > 1 }.map(\.key))
  }

  /// The customers whose claims name these transactions.
  func claimants(of transactions: Set<String>) -> [String: Set<Customer>] {
    claims.keys.reduce(into: [:]) { customers, key in
      guard transactions.contains(key.transactionID) else { return }
      customers[key.transactionID, default: []].insert(key.customer)
    }
  }

  /// The claims of a table to a purchase that the App Store does not know, or that belongs to another customer.
  func falseClaims(in source: LegacyClaim.Source) -> [LegacyClaim.Key] {
    decisions.filter { key, decided in
      claims[key]?.source == source && (decided.verdict == .unknown || decided.verdict == .anotherCustomer)
    }.keys.sorted { ($0.customer.id, $0.transactionID) < ($1.customer.id, $1.transactionID) }
  }
}

extension Array {
  /// The elements in arrays of at most `size`.
  fileprivate func chunked(by size: Int) -> [[Element]] {
    stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
  }
}
