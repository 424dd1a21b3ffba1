import Actions
import Configuration
import Foundation
import HTTP
import JSON
import Postgres
import Subscriptions

extension Console {
  /// *Record*: who did what, and each record by itself.
  static func record(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "Record", path: "/console/record", operation: .customer,
      pages: [
        ConsolePage(path: "/console/record", operation: .customer) { request in
          try await recordList(parts, request)
        },
        ConsolePage(path: "/console/record/{id}", operation: .customer) { request in
          let id: Int = try request.request.parameters.require("id")
          guard let row = try await parts.pool.query(RecordRows.one(id)).first else {
            throw Problem.notFound("There is no record \(id).")
          }
          let record = try ShownRecord(row, from: request.instant)
          return .page(ConsoleContent(title: "Record \(id)", template: "record-one", content: record))
        },
      ],
      templates: [
        "record": PackageResources.record_mustache, "record-one": PackageResources.record_one_mustache,
      ])
  }

  private static let recordLimit = 100
  /// The ids that a page searches for what may be rare among all records.
  static let recordReach: Int64 = 100_000

  private static func recordList(_ parts: Parts, _ request: ConsoleRequest) async throws -> ConsoleAnswer {
    let (by, app) = (request.value("by"), request.value("app"))
    let (customer, action) = (request.value("customer"), request.value("action"))
    var before = Int64.max
    if let text = request.value("before") {
      guard let number = Int64(text), number > 0 else {
        throw Problem.invalidRequest("'before' must be a number.")
      }
      before = number
    }
    // Rules of receiptd record much more than people do.
    let withRules = request.value("rules") != nil || customer != nil
    // The records of a person, an app or an action may be rare among those of the rules.
    var after: Int64 = 0
    if withRules, customer == nil, by != nil || app != nil || action != nil {
      let last: Int64 = try await parts.pool.query(RecordRows.last(before: before))[0].decode("id")
      after = max(0, last - recordReach)
    }
    let rows = try await parts.pool.query(
      RecordRows.list(
        by: by, app: app, customer: customer, action: action, before: before, after: after,
        withRules: withRules, limit: recordLimit + 1))
    let records = try rows.prefix(recordLimit).map { try ShownRecord($0, from: request.instant) }
    let isCut = rows.count > recordLimit
    let next =
      isCut || after > 0
      ? link(
        "/console/record",
        [
          "by": by, "app": app, "customer": customer, "action": action, "rules": withRules ? "on" : nil,
          "before": isCut ? records.last.map { "\($0.id)" } : "\(after + 1)",
        ]) : nil
    return .page(
      ConsoleContent(
        title: "Record", template: "record",
        content: RecordContent(
          by: by ?? "", app: app ?? "", customer: customer ?? "", action: action ?? "", withRules: withRules,
          apps: parts.catalog.apps.map {
            RecordContent.AppChoice(id: $0.bundleID, words: $0.name, isChosen: $0.bundleID == app)
          },
          records: records, reach: !isCut && after > 0 ? after + 1 : nil, next: next)))
  }

  /// *People*: who can sign in, with which role.
  static func people(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "People", path: "/console/people", operation: .people,
      pages: [
        ConsolePage(path: "/console/people", operation: .people) { request in
          let people = try await parts.people.list().people.map {
            PeopleContent.Line($0, from: request.instant)
          }
          return .page(
            ConsoleContent(title: "People", template: "people", content: PeopleContent(people: people)))
        }
      ],
      templates: ["people": PackageResources.people_mustache])
  }

  /// *Configuration*: the apps as this server knows them, and the switch of free access.
  static func configuration(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "Configuration", path: "/console/configuration", operation: .freeAccess,
      pages: [
        ConsolePage(path: "/console/configuration", operation: .freeAccess) { request in
          let open = try await parts.pool.query(
            "SELECT bundle_id, starts_at, started_by, reason FROM free_access WHERE ends_at IS NULL LIMIT 100"
          )
          var switches: [String: ConfigurationContent.Switch] = [:]
          for row in open {
            switches[try row.decode("bundle_id")] = ConfigurationContent.Switch(
              since: Moment(try row.decode("starts_at"), from: request.instant),
              by: try row.decode("started_by"),
              why: try row.decode("reason"))
          }
          return .page(
            ConsoleContent(
              title: "Configuration", template: "configuration",
              content: ConfigurationContent(
                digest: parts.server.configurationDigest,
                apps: parts.catalog.apps.map { ConfigurationContent.ShownApp($0, switches[$0.bundleID]) })))
        }
      ],
      templates: ["configuration": PackageResources.configuration_mustache])
  }
}

private struct RecordContent: Sendable {
  let by: String
  let app: String
  let customer: String
  let action: String
  let withRules: Bool
  let apps: [AppChoice]
  let records: [ShownRecord]
  /// The record at which the search ended before the page was full.
  let reach: Int64?
  let next: String?

  struct AppChoice: Sendable {
    let id: String
    let words: String
    let isChosen: Bool
  }
}

/// A row of `support_actions`.
private struct ShownRecord: Sendable {
  let id: Int64
  let at: Moment
  let did: String
  let author: String
  let actor: String
  let ofApp: String?
  let purchase: String?
  let purchasePath: String?
  let from: String?
  let fromPath: String?
  let to: String?
  let toPath: String?
  let words: String
  let details: [Detail]
  let hasDetails: Bool

  struct Detail: Sendable {
    let name: String
    let value: String
  }

  init(_ row: Row, from now: Date) throws {
    id = try row.decode("id")
    at = Moment(try row.decode("at"), from: now)
    did = try row.decode("action")
    author = try row.decode("by")
    actor = try row.decode("actor")
    ofApp = try row.decode("bundle_id")
    purchase = try row.decode("original_transaction_id")
    purchasePath = purchase.map(Console.customerPath)
    from = try row.decode("from_customer")
    fromPath = from.map(Console.customerPath)
    to = try row.decode("to_customer")
    toPath = to.map(Console.customerPath)
    words = try row.decode("reason")
    details = try Self.details(row.decode("details"), of: did)
    hasDetails = !details.isEmpty
  }

  /// The members of the column `details`. A refresh has the changes of each purchase under its id.
  private static func details(_ text: String?, of action: String) throws -> [Detail] {
    guard let text else { return [] }
    let members = try JSONDecoder().decode([String: JSONValue].self, from: Data(text.utf8))
    return try members.sorted { $0.key < $1.key }.map { name, value in
      let isUnchanged = action == SupportOperation.refresh.rawValue && value == .array([])
      return Detail(name: name, value: isUnchanged ? "nothing differed" : try words(value))
    }
  }

  private static func words(_ value: JSONValue) throws -> String {
    switch value {
    case .string(let text): text.readingTimes
    case .array(let values): try values.map(words).joined(separator: "; ")
    default: String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
    }
  }
}

private struct PeopleContent: Sendable {
  let people: [Line]

  struct Line: Sendable {
    let name: String
    let role: String
    let added: Moment
    let addedBy: String
    let used: Moment?
    let removed: Moment?
    let removePath: String?

    init(_ person: Person, from now: Date) {
      name = person.name
      role = person.role.rawValue
      added = Moment(person.createdAt, from: now)
      addedBy = person.createdBy
      used = person.lastUsedAt.map { Moment($0, from: now) }
      removed = person.removedAt.map { Moment($0, from: now) }
      removePath = person.removedAt == nil ? link("/console/act/people-remove", ["name": person.name]) : nil
    }
  }
}

private struct ConfigurationContent: Sendable {
  let digest: String
  let apps: [ShownApp]

  struct Switch: Sendable {
    let since: Moment
    let by: String
    let why: String
  }

  struct ShownApp: Sendable {
    let name: String
    let bundleID: String
    let customers: String
    let isOpen: Switch?
    let switchPath: String
    let switchWords: String
    /// The configuration alone switches new trials.
    let areTrialsPaused: Bool
    let trialsLine: String
    let tiers: [ShownTier]

    init(_ app: App, _ state: Switch?) {
      name = app.name
      bundleID = app.bundleID
      customers = "\(app.customer.rawValue)s"
      isOpen = state
      switchPath = link(
        "/console/act/free-access", ["bundleID": app.bundleID, "state": state == nil ? "on" : "off"])
      switchWords = state == nil ? "Turn free access on" : "Turn free access off"
      areTrialsPaused = app.newTrials == .paused
      trialsLine = "\"newTrials\": \"\(areTrialsPaused ? "open" : "paused")\""
      tiers = app.tiers.values.sorted { $0.rank > $1.rank }.map { tier in
        ShownTier(
          tier: tier.name, rank: tier.rank,
          products: app.products.filter { $0.value.tier == tier.name }.map(\.key).sorted().joined(
            separator: ", "),
          features: tier.features.ordered.map { "\($0.name): \($0.value.words)" }.joined(separator: ", "))
      }
    }
  }

  struct ShownTier: Sendable {
    let tier: String
    let rank: Int
    let products: String
    let features: String
  }
}

private enum RecordRows {
  private static let columns: StaticString = """
    id, at, action, bundle_id, original_transaction_id, from_customer, to_customer, by, actor, reason, details::text AS details
    """

  static func one(_ id: Int) -> Postgres.Query {
    "SELECT \(unescaped: columns) FROM support_actions WHERE id = \(id)"
  }

  /// The last id; 0 without a record.
  static func last(before: Int64) -> Postgres.Query {
    "SELECT coalesce(max(id), 0) AS id FROM support_actions WHERE id < \(before)"
  }

  /// The latest records. Indexes find those of a customer and of the customer's purchases. The others are read from the
  /// end of the table, or of the index of what people did.
  static func list(
    by: String?, app: String?, customer: String?, action: String?, before: Int64, after: Int64,
    withRules: Bool, limit: Int
  ) -> Postgres.Query {
    let filter: Postgres.Query = """
      id < \(before) AND id > \(after) AND (\(by)::text IS NULL OR by = \(by)) AND (\(app)::text IS NULL OR bundle_id = \(app))
        AND (\(action)::text IS NULL OR action = \(action))
      """
    guard let customer else {
      guard withRules else {
        return """
          SELECT \(unescaped: columns) FROM support_actions
          WHERE (actor <> 'receiptd' OR action = 'find') AND \(filter) ORDER BY id DESC LIMIT \(limit)
          """
      }
      return
        "SELECT \(unescaped: columns) FROM support_actions WHERE \(filter) ORDER BY id DESC LIMIT \(limit)"
    }
    return """
      SELECT * FROM (
        SELECT \(unescaped: columns) FROM support_actions WHERE from_customer = \(customer) AND \(filter)
        UNION
        SELECT \(unescaped: columns) FROM support_actions WHERE to_customer = \(customer) AND \(filter)
        UNION
        SELECT \(unescaped: columns) FROM support_actions WHERE \(filter) AND original_transaction_id IN (
          SELECT original_transaction_id FROM subscriptions WHERE device_id = \(customer) AND user_id IS NULL
          UNION
          SELECT original_transaction_id FROM subscriptions WHERE user_id = \(UUID(uuidString: customer)))
      ) AS records ORDER BY id DESC LIMIT \(limit)
      """
  }
}
