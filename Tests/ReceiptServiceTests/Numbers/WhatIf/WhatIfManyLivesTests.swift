import AppStore
import Configuration
import Customers
import Foundation
import Logging
import Postgres
import Subscriptions
import Testing
import Work

@testable import AppStoreSimulator
@testable import Ledger
@testable import Numbers
@testable import ReceiptService

/// `receiptd what-if` over many random lives against ``SlowAccess``, which computes every customer from the rows. Checks 200 lives, or as
/// many as the environment variable `WHATIF_LIVES` names.
@Suite struct WhatIfManyLivesTests {
  @Test(arguments: portions)
  func `what-if over random lives equals a slow recomputation of every customer`(seeds: Range<UInt64>)
    async throws
  {
    try await withHarness(configuration: RandomConfiguration.current.text) { harness in
      let apps = [RandomConfiguration.users, RandomConfiguration.devices, RandomConfiguration.tablets]
      let instant = harness.clock.now
      for app in apps { try await harness.write(freeAccessOf: app, before: instant) }
      try await harness.live(seeds, until: instant)
      var rows: [String: SlowRows] = [:]
      for app in apps {
        rows[app] = try await SlowRows(
          of: app, by: app == RandomConfiguration.users ? "user_id" : "device_id", in: harness.pool)
      }
      var random = SeededGenerator(seed: seeds.lowerBound &+ 1_000_003)
      var noticing = 0
      for number in 0..<10 {
        let other = try RandomConfiguration(changedBy: &random, for: rows, at: instant)
        var findings: [String: [String: AccessChange]] = [:]
        let reports = try await harness.service.compare(
          with: AppCatalog(json: Data(other.text.utf8), named: "other"), bundleID: nil, at: instant
        ) { _, _ in
        } found: { finding in
          findings[finding.bundleID, default: [:]][finding.customer.id] = finding.change
        }
        noticing += findings.values.reduce(0) { $0 + $1.count }
        for app in apps {
          let problems = try await Self.disagreements(
            findings[app] ?? [:], of: app, try #require(rows[app]), with: other.text, from: instant)
          #expect(
            problems.isEmpty,
            """
            WHATIF_LIVES: seeds \(seeds), configuration \(number), \(app):
            \(problems.prefix(5).joined(separator: "\n"))
            \(other.changes.joined(separator: "; "))
            """)
          let compared = reports.first { $0.bundleID == app }?.customers
          #expect(compared == rows[app]?.customers.count)
        }
      }
      // A comparison that finds nothing would agree with an empty database.
      #expect(noticing > Int(seeds.count))
    }
  }

  @Test func `the trial that counts after the sandbox's window is no change`() async throws {
    let configuration = RandomConfiguration.current.text
    try await withHarness(configuration: configuration) { harness in
      let instant = harness.clock.now
      for (environment, days) in [("Production", 30.0), ("Sandbox", 40)] {
        _ = try await harness.pool.query(
          """
          INSERT INTO trials (bundle_id, device_id, environment, started_at, ends_at)
          VALUES (\(RandomConfiguration.devices), 'phone', \(environment), \(instant), \(instant + days * 86_400))
          """)
      }
      let reports = try await harness.service.compare(
        with: AppCatalog(json: Data(configuration.utf8), named: "same"),
        bundleID: RandomConfiguration.devices,
        at: instant
      ) { _, _ in
      } found: { finding in
        Issue.record("\(finding.change)")
      }
      #expect(reports.map(\.customers) == [1])
    }
  }

  /// The portions of the lives; each has a database and ten configurations of its own.
  private static let portions: [Range<UInt64>] = {
    let lives = ProcessInfo.processInfo.environment["WHATIF_LIVES"].flatMap(UInt64.init) ?? 200
    return stride(from: 0, to: lives, by: 1_000).map { $0..<min($0 + 1_000, lives) }
  }()

  /// Where what-if and the slow program differ. The slow program looks at each instant at which a customer's answer may
  /// change, at the seconds before and after it, and every ten days for 450 days.
  private static func disagreements(
    _ findings: [String: AccessChange], of bundleID: String, _ rows: SlowRows, with configuration: String,
    from instant: Date
  ) async throws -> [String] {
    let current = try #require(try SlowApp(bundleID, in: RandomConfiguration.current.text))
    let former = SlowAccess(app: current, free: current.free, freeAccess: rows.freeAccess)
    let latter = SlowAccess(
      app: try SlowApp(bundleID, in: configuration), free: current.free, freeAccess: rows.freeAccess)
    let steps = (0...45).map { instant + Double($0) * 864_000 }
    var found = findings.keys.filter { rows.customers[$0] == nil }.map { "\($0) is no customer" }
    for customer in rows.customers.values {
      await Task.yield()
      let change = findings[customer.id]
      let instants = (former.boundaries(of: customer) + latter.boundaries(of: customer))
        .flatMap { [$0 - 1, $0, $0 + 1] }
      for at in (instants + steps).filter({ $0 >= instant }).sorted() {
        if let change, at >= change.at { break }
        let (before, after) = (former.answer(to: customer, at: at), latter.answer(to: customer, at: at))
        guard let kind = Self.kind(before, after) else { continue }
        found.append(
          "\(customer.id) \(kind) at \(at), and what-if says \(change.map { "\($0)" } ?? "nothing")\n\(customer)"
        )
        break
      }
      guard let change else { continue }
      let kind = Self.kind(
        former.answer(to: customer, at: change.at), latter.answer(to: customer, at: change.at))
      if kind != change.kind.words || change.at < instant {
        found.append("\(customer.id) \(kind ?? "notices nothing"), and what-if says \(change)\n\(customer)")
      }
    }
    return found
  }

  /// The change in words; `nil` for none.
  private static func kind(_ before: SlowAccess.Answer, _ after: SlowAccess.Answer) -> String? {
    if before.isGranted != after.isGranted { return before.isGranted ? "loses access" : "gains access" }
    if before.isGranted, before.tier != after.tier {
      return "changes tier from \(before.tier ?? "none") to \(after.tier ?? "none")"
    }
    guard before.features != after.features else { return nil }
    let names = Set(before.features.keys).union(after.features.keys)
      .filter { before.features[$0] != after.features[$0] }
    return "changes \(names.sorted().joined(separator: ", "))"
  }
}

extension Harness {
  /// Writes two past periods of free access, the second of which may have paused trials and graces that still run.
  fileprivate func write(freeAccessOf bundleID: String, before instant: Date) async throws {
    for days in [200.0, 20] {
      let start = instant - days * 86_400
      _ = try await pool.query(
        """
        INSERT INTO free_access (bundle_id, starts_at, ends_at, started_by, ended_by, reason)
        VALUES (\(bundleID), \(start), \(start + 5 * 86_400), 'ada', 'ada', 'a sale')
        """)
    }
  }

  /// Records what is signed until an instant of these lives; their purchases have several claimants, and some of their
  /// customers have trials and grants.
  fileprivate func live(_ seeds: Range<UInt64>, until instant: Date) async throws {
    let catalog = service.notifications.catalog
    let models = try RecordModels(self)
    var entries: [LedgerEntry] = []
    for seed in seeds {
      var random = SeededGenerator(seed: seed)
      let bundleID = [RandomConfiguration.users, RandomConfiguration.devices, RandomConfiguration.tablets][
        Int(seed % 3)]
      let app = try #require(catalog[bundleID])
      var sold = StoreApp.everything
      sold.bundleID = bundleID
      let life = RandomLife(
        seed: seed, app: sold,
        environment: Int.random(in: 0..<6, using: &random) == 0 ? .sandbox : .production,
        from: instant - Double.random(in: 0..<700, using: &random) * 86_400)
      let customers: [Customer] =
        app.customer == .user
        ? (life.customerTokens + [UUID(seededBy: &random)]).map(Customer.user)
        : (0..<3).map { .device("device-\(seed / 3)-\($0)") }
      for (_, facts) in Dictionary(
        grouping: life.facts.filter { $0.signedDate <= instant }, by: \.originalTransactionID
      ).sorted(by: { $0.key < $1.key }) {
        var entry = LedgerEntry(
          app: app, originalTransactionID: facts[0].originalTransactionID, because: .proof(nil),
          instant: instant)
        for fact in facts { try models.add(fact, to: &entry) }
        guard let proof = entry.transactions.last else { continue }
        entry.cause = .proof(customers.randomElement(using: &random).map { Claim(by: $0) })
        entries.append(entry)
        for claimant in customers where Int.random(in: 0..<3, using: &random) == 0 {
          entry.transactions = [proof]
          entry.renewals = []
          entry.cause = .proof(Claim(by: claimant))
          entries.append(entry)
        }
      }
      try await give(customers, of: bundleID, at: instant, &random)
      if entries.count >= 100 || seed == seeds.upperBound - 1 {
        try await commit(entries)
        entries = []
      }
    }
  }

  private func commit(_ entries: [LedgerEntry]) async throws {
    let notifications = service.notifications
    let batch = LedgerTransaction(
      entries: entries, headerIDs: JWSHeaderIDs(), catalog: notifications.catalog,
      effects: notifications.ledger.effects, clock: clock.service,
      logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: notifications.metrics)
    _ = try await pool.withTransaction { connection in try await batch.run(on: connection) }
  }

  /// Gives some customers trials and grants.
  private func give(
    _ customers: [Customer], of bundleID: String, at instant: Date, _ random: inout SeededGenerator
  ) async throws {
    func days(_ range: Range<Double>) -> Date {
      instant + (Double.random(in: range, using: &random) * 86_400).rounded()
    }
    func environment() -> String { Int.random(in: 0..<4, using: &random) == 0 ? "Sandbox" : "Production" }
    for customer in customers where Int.random(in: 0..<5, using: &random) == 0 {
      let start = days(-60..<30)
      let end: Date? =
        Bool.random(using: &random) ? nil : start + Double.random(in: 0..<90, using: &random) * 86_400
      let revoked: Date? = Int.random(in: 0..<8, using: &random) == 0 ? instant : nil
      let tier = "tier\(Int.random(in: 1...3, using: &random))"
      _ = try await pool.query(
        """
        INSERT INTO grants (bundle_id, user_id, device_id, tier, environment, starts_at, ends_at, revoked_at, reason, granted_by)
        VALUES (\(bundleID), \(customer.userID), \(customer.deviceID), \(tier), \(environment()), \(start), \(end), \(revoked),
          'a gift', 'ada')
        """)
    }
    guard let first = customers.first?.deviceID, let last = customers.last?.deviceID,
      Int.random(in: 0..<3, using: &random) == 0
    else { return }
    let (start, length) = (days(-60..<0), Double(Int.random(in: 1...60, using: &random)))
    let id = UUID(seededBy: &random)
    _ = try await pool.query(
      """
      INSERT INTO trials (id, bundle_id, device_id, environment, started_at, ends_at)
      VALUES (\(id), \(bundleID), \(first), \(environment()), \(start), \(start + length * 86_400))
      """)
    if Bool.random(using: &random) {
      // A device of the same Apple Account continues the trial; one in the other environment counts beside it.
      _ = try await pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, environment, started_at, ends_at, continues)
        VALUES (\(bundleID), \(last), 'Production', \(start), \(start), \(id))
        """)
      _ = try await pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, environment, started_at, ends_at)
        VALUES (\(bundleID), \(last), 'Sandbox', \(start), \(days(-20..<60)))
        """)
    }
  }
}

extension UUID {
  fileprivate init(seededBy random: inout SeededGenerator) {
    let bytes = (0..<2).map { _ in random.next() }
    self = withUnsafeBytes(of: (bytes[0], bytes[1])) { UUID(uuid: $0.load(as: uuid_t.self)) }
  }
}

/// A signed transaction and a signed renewal info, whose records become those of other facts: signing each fact would
/// take most of the time.
private struct RecordModels {
  private let transaction: TransactionRecord
  private let renewal: RenewalRecord

  init(_ harness: Harness) throws {
    let facts = (0..<20).lazy.flatMap { RandomLife(seed: $0).facts }
    let (signer, verifier) = (harness.store.identity.authority.signer, harness.service.notifications.verifier)
    func first<Record>(_ record: (LifeFact) throws -> Record?) throws -> Record {
      for fact in facts { if let record = try record(fact) { return record } }
      throw CancellationError()
    }
    transaction = try first {
      guard case .transaction(let info) = $0 else { return nil }
      return try TransactionRecord(verifier.transaction(signer.sign(info)))
    }
    renewal = try first {
      guard case .renewal(let info) = $0 else { return nil }
      return try RenewalRecord(verifier.renewalInfo(signer.sign(info)))
    }
  }

  func add(_ fact: LifeFact, to entry: inout LedgerEntry) throws {
    switch fact {
    case .transaction(let info):
      var record = transaction
      record.fact = try TransactionFact(info)
      entry.transactions.append(record)
    case .renewal(let info):
      var record = renewal
      record.fact = try RenewalFact(info)
      entry.renewals.append(record)
    }
  }
}

/// The configuration in force, and random changes of it.
private struct RandomConfiguration {
  static let users = "com.example.users"
  static let devices = "com.example.devices"
  /// Another app of the same devices.
  static let tablets = "com.example.tablets"

  private(set) var text: String
  private(set) var changes: [String] = []

  static let current: RandomConfiguration = {
    let products = StoreApp.everything.products.values.sorted { $0.id < $1.id }
      .map { product in
        let days = product.type == .nonRenewingSubscription ? #", "accessDays": 90"# : ""
        return #""\#(product.id)": { "tier": "tier\#(product.rank)"\#(days) }"#
      }
    let tiers = (1...3).map {
      #""tier\#($0)": { "rank": \#($0), "features": { "limit": \#($0), "export": true } }"#
    }
    // The sandbox counts for some days more.
    let end = (Date() + 10 * 86_400).formatted(.iso8601)
    let window = #""sandboxGrants": { "everyone": true, "until": "\#(end)" }"#
    func app(_ bundleID: String, _ number: Int, _ rest: String) -> String {
      """
      { "bundleID": "\(bundleID)", "appAppleID": \(number), "name": "\(bundleID)", "transferPolicy": "transfer",
        "products": { \(products.joined(separator: ", ")) }, "tiers": { \(tiers.joined(separator: ", ")) },
        "free": { "features": { "limit": 0, "export": false } }, "grace": { "days": 7, "features": { "limit": 0, "export": true } },
        \(rest) }
      """
    }
    return RandomConfiguration(
      text: """
        { "apps": [
          \(app(users, 1_500_000_011, #""customer": "user", "auth": \#(TestApps.secretAuth)"#)),
          \(app(devices, 1_500_000_012, #""customer": "device", "default": true, "trial": { "days": 30, "features": { "limit": 9 } }, "# + window)),
          \(app(tablets, 1_500_000_013, #""customer": "device", "devicesPerPurchase": 2"#))
        ] }
        """)
  }()

  private init(text: String) { self.text = text }

  init(changedBy random: inout SeededGenerator, for rows: [String: SlowRows], at instant: Date) throws {
    let data = Data(Self.current.text.utf8)
    var file = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    var apps = try #require(file["apps"] as? [[String: Any]])
    text = ""
    for index in apps.indices {
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        try change(&apps[index], &random, rows, at: instant)
      }
    }
    if Int.random(in: 0..<20, using: &random) == 0 {
      changes.append("without the app \(apps[0]["bundleID"] ?? "")")
      apps.removeFirst()
    }
    file["apps"] = apps
    text = String(decoding: try JSONSerialization.data(withJSONObject: file), as: UTF8.self)
  }

  private mutating func change(
    _ app: inout [String: Any], _ random: inout SeededGenerator, _ rows: [String: SlowRows], at instant: Date
  ) throws {
    let bundleID = try #require(app["bundleID"] as? String)
    var products = try #require(app["products"] as? [String: [String: Any]])
    var tiers = try #require(app["tiers"] as? [String: [String: Any]])
    let product = try #require(products.keys.sorted().randomElement(using: &random))
    let tier = try #require(tiers.keys.sorted().randomElement(using: &random))
    func note(_ change: String) { changes.append("\(bundleID): \(change)") }
    switch Int.random(in: 0..<13, using: &random) {
    case 0, 1:
      let days = Int.random(in: 0...40, using: &random)
      note("grace of \(days) days")
      app["grace"] = days == 0 ? nil : ["days": days, "features": ["limit": 0]]
    case 2:
      note("without \(product)")
      products[product] = nil
    case 3:
      note("\(product) is another name of a new product")
      products["new.\(product)"] = (products[product] ?? [:]).merging(["aliases": [product]]) { $1 }
      products[product] = nil
    case 4:
      note("other features of \(tier)")
      tiers[tier]?["features"] = ["limit": Int.random(in: 0...9, using: &random), "export": true]
    case 5:
      note("other free features")
      app["free"] = ["features": ["limit": Int.random(in: 0...2, using: &random), "export": false]]
    case 6:
      note("\(product) opens a new tier")
      tiers["novel"] = ["rank": Int.random(in: 4...9, using: &random), "features": ["limit": 10]]
      products[product]?["tier"] = "novel"
    case 7:
      let rank = Int.random(in: 10...20, using: &random)
      note("\(tier) has the rank \(rank)")
      tiers[tier]?["rank"] = rank
    case 8:
      let days = Int.random(in: 1...200, using: &random)
      note("the season lasts \(days) days")
      if products["season"] != nil { products["season"]?["accessDays"] = days }
    case 9:
      let testers = (rows[bundleID]?.customers.keys.sorted() ?? []).filter { _ in
        Int.random(in: 0..<2, using: &random) == 0
      }
      note("\(testers.count) testers")
      app["sandboxGrants"] = testers
    case 10:
      note("the sandbox does not count")
      app["sandboxGrants"] = "nobody"
    case 11:
      let end = instant + Double(Int.random(in: 1...100, using: &random)) * 86_400
      note("the sandbox counts until \(end)")
      app["sandboxGrants"] = ["everyone": true, "until": end.formatted(.iso8601)]
    default:
      guard app["customer"] as? String == "device" else {
        note("the sandbox counts")
        app["sandboxGrants"] = "everyone"
        return
      }
      note("devices share nothing; other features of the trial")
      app["devicesPerPurchase"] = 1
      app["trial"] = ["days": 10, "features": ["limit": Int.random(in: 0...9, using: &random)]]
    }
    (app["products"], app["tiers"]) = (products, tiers)
  }
}
