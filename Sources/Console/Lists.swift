import Actions
import Configuration
import Foundation
import HTTP
import Postgres
import Subscriptions

extension Console {
  /// *Lists*: the customers and purchases of one kind, with filters in the address, as a page or as CSV.
  static func lists(_ parts: Parts) -> ConsoleScreen {
    let page = ListPage(
      parts: parts, kinds: ListKind.all(parts.catalog), products: FigureNames.products(parts.catalog))
    return ConsoleScreen(
      entry: "Lists", path: "/console/lists", operation: .find,
      pages: [
        ConsolePage(path: "/console/lists", operation: .find) { request in try await page.answer(request) }
      ],
      templates: ["lists": PackageResources.lists_mustache])
  }
}

/// A list: its rows have an instant, a customer, a purchase, an app, a product, and words.
struct ListKind: Sendable {
  /// The value of `list` in the address.
  let name: String
  let title: String
  /// What is in it, in a sentence.
  let explanation: String
  /// The heading of the instant.
  let heading: String
  /// What one row is.
  var row = "purchase"
  /// The rows of an app, or of all: at most `limit`, of the days that the filter allows. All read an index from one
  /// end. What is rare among many rows has an index of its own: a list that is short would read all the others.
  let rows: @Sendable (_ filter: Filter) -> Postgres.Query
  /// The usual number of days.
  var days = 7
  /// Whether its ids are of clients, and may be unknown.
  var isUnproven = false
  /// Whether the filter needs the customers with several purchases.
  var readsDoubles = false

  /// What the rows of a list are asked for.
  struct Filter: Sendable {
    /// `nil` for all apps.
    var app: String?
    var now: Date
    var days: Int
    var limit: Int
    /// For lists that ask for them alone.
    var doubles = DoubleBuyers.Found()

    var span: TimeInterval { TimeInterval(days) * 86_400 }

    /// The condition of the app, for a column. Without an app it is none, so that the planner knows which index to read.
    func isOfApp(_ column: StaticString) -> Postgres.Query {
      app.map { "\(unescaped: column) = \($0)" } ?? "true"
    }
  }

  /// A list of purchases by the end of their paid time.
  /// - Parameters:
  ///   - reach: how long before now the paid time may have ended.
  ///   - columns: what the table `subscriptions b` alone tells, so that the view is read for rows that are probably in the list.
  ///   - condition: what the view `support_subscriptions s` says of a row in the list.
  private static func purchases(
    _ name: String, _ title: String, _ explanation: String, _ heading: String, days: Int,
    isPast: Bool = false, reach: TimeInterval = 0, columns: StaticString = "true",
    where condition: StaticString,
    what: StaticString = "concat_ws(', ', s.store_status, s.price || ' ' || s.currency)"
  ) -> ListKind {
    ListKind(
      name: name, title: title, explanation: explanation, heading: heading,
      rows: { filter in
        let now = filter.now
        // A charge may fail before the paid time ends.
        let (from, until) =
          isPast
          ? (now - filter.span, now + SubscriptionFacts.chargedAhead) : (now - reach, now + filter.span)
        let order: Postgres.Query = isPast ? "DESC" : "ASC"
        return """
          SELECT b.expiry_date AS at, coalesce(s.user_id::text, s.device_id) AS customer,
            s.original_transaction_id AS purchase, s.bundle_id, s.product_id, \(unescaped: what) AS what
          FROM subscriptions b CROSS JOIN LATERAL (
            -- OFFSET keeps the view apart: PostgreSQL reads it row by row, up to the limit.
            SELECT * FROM support_subscriptions v WHERE v.original_transaction_id = b.original_transaction_id OFFSET 0
          ) AS s
          WHERE b.expiry_date >= \(from) AND b.expiry_date < \(until) AND \(filter.isOfApp("b.bundle_id"))
            AND \(unescaped: columns) AND \(unescaped: condition)
          ORDER BY b.expiry_date \(order) LIMIT \(filter.limit)
          """
      }, days: days)
  }

  /// The longest time after the paid time for which an app's own grace is looked at.
  private static let longestGrace: TimeInterval = 366 * 86_400

  static func all(_ catalog: AppCatalog) -> [ListKind] {
    let ownGrace = min(catalog.apps.compactMap { $0.grace?.duration }.max() ?? 0, longestGrace)
    return [
      purchases(
        "billing", "Billing trouble",
        "Apple could not charge them: before the end of the paid time, in billing grace, or retried for up to 60 days.",
        "Paid until", days: 60, isPast: true,
        columns: "b.next_change_at IS NOT NULL AND b.phase_store_statuses && '{billingGrace,billingRetry}'",
        where: "s.store_status IN ('active', 'billingGrace', 'billingRetry')",
        what: """
          concat_ws(', ', CASE s.store_status WHEN 'active' THEN 'charge failed, paid time runs'
            WHEN 'billingGrace' THEN 'billing grace' ELSE 'billing retry' END, s.price || ' ' || s.currency)
          """),
      purchases(
        "renewing", "Renewing soon", "They renew within these days, unless Apple cannot charge them.",
        "Renews", days: 7,
        columns: "b.auto_renew_enabled AND b.environment = 'Production' AND b.revoked_at IS NULL",
        where: "s.will_renew",
        what: """
          concat_ws(', ', CASE WHEN b.phase_store_statuses && '{billingGrace,billingRetry}' THEN 'a charge failed' END,
            coalesce(s.renewal_price, s.price) || ' ' || coalesce(s.renewal_currency, s.currency), s.renewal_offer)
          """),
      purchases(
        "cancelled", "Cancelled but running",
        "They will not renew, and still run. After the paid time the app's own grace lets some in a little longer.",
        "Paid until", days: 31, reach: ownGrace,
        // The end of an app's own grace is the beginning of the last phase.
        columns: """
          b.next_change_at IS NOT NULL AND b.auto_renew_enabled IS NOT TRUE AND b.is_counted AND b.environment = 'Production'
            AND (b.expiry_date > now() OR b.phase_starts[cardinality(b.phase_starts)] > now())
          """,
        where: "NOT s.will_renew AND s.has_access",
        what: """
          concat_ws(', ', CASE WHEN s.expiry_date <= now() AND s.store_status <> 'billingGrace'
            THEN 'paid time is over, the app''s own grace until '
              || to_char(s.access_ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC' END,
            s.end_reason, s.price || ' ' || s.currency)
          """),
      ListKind(
        name: "price", title: "Price increase pending",
        explanation: "The customer has not agreed to a higher price yet.", heading: "Ends without consent",
        rows: { filter in
          // A price increase may concern all customers of a product at once.
          let most = 10_000
          let ends: Postgres.Query = """
            b.auto_renew_enabled AND b.expiry_date >= \(filter.now) AND b.expiry_date < \(filter.now + filter.span)
              AND \(filter.isOfApp("b.bundle_id"))
            """
          return """
            WITH pending AS MATERIALIZED (
              SELECT original_transaction_id FROM renewals WHERE other_claims ->> 'priceIncreaseStatus' = '0'
              LIMIT \(most + 1)
            )
            SELECT r.expiry_date AS at, coalesce(s.user_id::text, s.device_id) AS customer,
              s.original_transaction_id AS purchase, s.bundle_id, s.product_id,
              s.price || ' to ' || s.renewal_price || ' ' || s.renewal_currency AS what
            FROM (
              -- OFFSET keeps the order: the view is read row by row, up to the limit.
              (SELECT b.original_transaction_id, b.expiry_date FROM pending JOIN subscriptions b USING (original_transaction_id)
                WHERE (SELECT count(*) FROM pending) <= \(most) AND \(ends) ORDER BY b.expiry_date OFFSET 0)
              UNION ALL
              -- Among so many, the first ones by date are found by their dates.
              (SELECT * FROM (
                  SELECT b.original_transaction_id, b.expiry_date FROM subscriptions b
                  WHERE (SELECT count(*) FROM pending) > \(most) AND \(ends) ORDER BY b.expiry_date LIMIT \(filter.limit * 100)
                ) AS first
                WHERE (
                  SELECT r.other_claims ->> 'priceIncreaseStatus' FROM renewals r
                  WHERE r.original_transaction_id = first.original_transaction_id) = '0'
                ORDER BY expiry_date OFFSET 0)
            ) AS r CROSS JOIN LATERAL (
              SELECT * FROM support_subscriptions v WHERE v.original_transaction_id = r.original_transaction_id OFFSET 0
            ) AS s
            WHERE s.price_increase = 'pending' ORDER BY r.expiry_date LIMIT \(filter.limit)
            """
        }, days: 31),
      ListKind(
        name: "refunded", title: "Refunded", explanation: "Apple refunded or revoked them within these days.",
        heading: "Refunded",
        rows: { filter in
          """
          SELECT t.revoked_at AS at, coalesce(s.user_id::text, s.device_id) AS customer,
            t.original_transaction_id AS purchase, t.bundle_id, t.product_id, t.price || ' ' || t.currency AS what
          FROM support_transactions t LEFT JOIN subscriptions s USING (original_transaction_id)
          WHERE t.revoked_at >= \(filter.now - filter.span) AND t.revoked_at <= \(filter.now)
            AND \(filter.isOfApp("t.bundle_id"))
          ORDER BY t.revoked_at DESC LIMIT \(filter.limit)
          """
        }, days: 31),
      ListKind(
        name: "refund-requests", title: "Refund requests to answer",
        explanation: "Apple asked about a refund, and takes an answer until then.", heading: "Deadline",
        row: "request",
        rows: { filter in
          """
          SELECT c.deadline AS at, coalesce(s.user_id::text, s.device_id) AS customer,
            c.original_transaction_id AS purchase, c.bundle_id, s.product_id,
            concat_ws('; ', c.request_reason, c.last_error) AS what
          FROM store_calls c LEFT JOIN subscriptions s USING (original_transaction_id)
          WHERE c.settled_at IS NULL AND c.kind = 'consumption' AND \(filter.isOfApp("c.bundle_id"))
          ORDER BY c.deadline LIMIT \(filter.limit)
          """
        }),
      ListKind(
        name: "twice", title: "Bought twice",
        explanation:
          "Customers with two running purchases of one tier, of which at least one is paid. The customer's page tells which one to keep. A second purchase is listed within five minutes.",
        heading: "First end", row: "customer",
        rows: { filter in
          """
          WITH held AS MATERIALIZED (
            SELECT DISTINCT b.* FROM (
              SELECT original_transaction_id, app_transaction_id FROM subscriptions
              WHERE user_id = ANY(\(filter.doubles.users)::uuid[]) AND environment = 'Production'
              UNION ALL
              SELECT original_transaction_id, app_transaction_id FROM subscriptions
              WHERE device_id = ANY(\(filter.doubles.devices)) AND environment = 'Production'
            ) AS b
          )
          SELECT min(s.expiry_date) AS at, coalesce(s.user_id::text, s.device_id) AS customer,
            max(s.original_transaction_id) AS purchase, s.bundle_id, string_agg(DISTINCT s.product_id, ', ') AS product_id,
            s.tier || ': ' || string_agg(s.original_transaction_id || CASE
              WHEN s.ownership = 'FAMILY_SHARED' THEN ' (shared by the family)'
              WHEN held.app_transaction_id IS NULL OR held.app_transaction_id LIKE 'erased:%' THEN ''
              ELSE ' (Apple Account …' || right(held.app_transaction_id, 6) || ')' END, ' and '
              ORDER BY s.purchase_date, s.original_transaction_id) AS what
          FROM held CROSS JOIN LATERAL (
            SELECT * FROM support_subscriptions v WHERE v.original_transaction_id = held.original_transaction_id OFFSET 0
          ) AS s
          WHERE s.has_access AND s.store_status IN ('active', 'billingGrace')
            AND \(filter.isOfApp("s.bundle_id"))
          GROUP BY s.bundle_id, s.user_id, s.device_id, s.tier
          HAVING count(*) > 1 AND bool_or(s.ownership IS DISTINCT FROM 'FAMILY_SHARED')
          ORDER BY at NULLS LAST, customer LIMIT \(filter.limit)
          """
        }, readsDoubles: true),
      purchases(
        "without-owner", "Without owner", "They run, and no customer has proved them yet.", "Paid until",
        days: 31,
        columns: "b.user_id IS NULL AND b.device_id IS NULL", where: "true"),
      ListKind(
        name: "sandbox", title: "Sandbox", explanation: "Purchases of testers and of TestFlight.",
        heading: "Until",
        rows: { filter in
          """
          SELECT s.expiry_date AS at, coalesce(s.user_id::text, s.device_id) AS customer,
            s.original_transaction_id AS purchase, s.bundle_id, s.product_id, s.environment AS what
          FROM subscriptions s
          WHERE s.environment <> 'Production' AND \(filter.isOfApp("s.bundle_id"))
          ORDER BY s.bundle_id, s.original_transaction_id LIMIT \(filter.limit)
          """
        }),
      ListKind(
        name: "trials", title: "Trials that end",
        explanation: "Trials of the apps' own that end within these days.",
        heading: "Ends", row: "trial",
        rows: { filter in
          """
          SELECT r.ends_at AS at, r.device_id AS customer, NULL::text AS purchase, r.bundle_id, NULL::text AS product_id,
            'began ' || to_char(r.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS what
          FROM trials r
          WHERE r.continues IS NULL AND r.ends_at >= \(filter.now) AND r.ends_at < \(filter.now + filter.span)
            AND \(filter.isOfApp("r.bundle_id"))
          ORDER BY r.ends_at LIMIT \(filter.limit)
          """
        }),
      ListKind(
        name: "grants", title: "Grants that end", explanation: "Grants that end within these days.",
        heading: "Ends", row: "grant",
        rows: { filter in
          """
          SELECT g.next_change_at AS at, coalesce(g.user_id::text, g.device_id) AS customer, NULL::text AS purchase,
            g.bundle_id, NULL::text AS product_id, concat(g.tier, ', by ', g.granted_by, ': ', g.reason) AS what
          FROM grants g
          WHERE (g.followed_until IS NULL OR g.followed_until < g.next_change_at)
            AND g.next_change_at >= \(filter.now) AND g.next_change_at < \(filter.now + filter.span)
            AND \(filter.isOfApp("g.bundle_id"))
          ORDER BY g.next_change_at LIMIT \(filter.limit)
          """
        }, days: 31),
      ListKind(
        name: "refused", title: "Refused requests",
        explanation: "Requests of clients that were answered with 4xx. What they name is unproven.",
        heading: "Refused", row: "request",
        rows: { filter in
          """
          SELECT a.at, coalesce(a.user_id::text, a.device_id) AS customer, a.transaction_id AS purchase, a.bundle_id,
            NULL::text AS product_id, concat(a.code, ': ', a.route, ', request ', a.request_id) AS what
          FROM refused_attempts a
          WHERE a.at >= \(filter.now - filter.span) AND a.at <= \(filter.now)
            AND \(filter.isOfApp("a.bundle_id"))
          ORDER BY a.at DESC LIMIT \(filter.limit)
          """
        }, isUnproven: true),
    ]
  }

  /// How many rows there are, such as `42 purchases` or `the first 200 purchases of more`.
  func count(_ rows: Int, limit: Int) -> String? {
    if rows > limit { return "The first \(limit) \(row)s of more. Narrow the filter, or take the CSV." }
    return rows == 0 ? nil : "\(rows) \(row)\(rows == 1 ? "" : "s")"
  }
}

/// The customers who may have bought twice.
///
/// PostgreSQL reads two indexes whole to find customers with several purchases, so a server does it at most once in five
/// minutes. The list looks at the purchases of those who were found.
actor DoubleBuyers {
  struct Found: Sendable {
    var users: [String] = []
    var devices: [String] = []
  }

  private static let lifetime: TimeInterval = 300
  private var last: (found: Found, at: Date)?

  /// - Throws: errors of the database.
  func found(at now: Date, _ pool: PostgresPool) async throws -> Found {
    if let last, abs(now.timeIntervalSince(last.at)) < Self.lifetime { return last.found }
    var found = Found()
    // The estimate of the statement is high, and compiling it costs more than it.
    let answers = try await pool.transaction(
      pipeline: ["SELECT set_config('jit', 'off', true)", Self.several])
    for row in answers[1] {
      if let user = try row.decode("user_id", as: String?.self) { found.users.append(user) }
      if let device = try row.decode("device_id", as: String?.self) { found.devices.append(device) }
    }
    last = (found, now)
    return found
  }

  /// Those with two purchases of an app that may run: each has a change ahead, or no end.
  private static let several: Postgres.Query = """
    SELECT several.* FROM (
      (SELECT user_id::text, NULL::text AS device_id FROM subscriptions
        WHERE user_id IS NOT NULL GROUP BY subscriptions.user_id HAVING count(*) > 1 LIMIT 20000)
      UNION ALL
      (SELECT NULL, device_id FROM subscriptions
        WHERE device_id IS NOT NULL GROUP BY device_id HAVING count(*) > 1 LIMIT 20000)
    ) AS several CROSS JOIN LATERAL (
      SELECT bundle_id FROM (
        SELECT bundle_id, environment, revoked_at, next_change_at, expiry_date FROM subscriptions
        WHERE user_id = several.user_id::uuid
        UNION ALL
        SELECT bundle_id, environment, revoked_at, next_change_at, expiry_date FROM subscriptions
        WHERE device_id = several.device_id
        OFFSET 0
      ) AS b
      WHERE environment = 'Production' AND revoked_at IS NULL AND (next_change_at IS NOT NULL OR expiry_date IS NULL)
      GROUP BY bundle_id HAVING count(*) > 1 LIMIT 1
    ) AS held
    LIMIT 2000
    """
}

private struct ListPage: Sendable {
  let parts: Console.Parts
  let kinds: [ListKind]
  /// The short names of products.
  let products: [String: String]
  private let doubles = DoubleBuyers()

  init(parts: Console.Parts, kinds: [ListKind], products: [String: String]) {
    self.parts = parts
    self.kinds = kinds
    self.products = products
  }

  private static let limit = 200
  private static let csvLimit = 10_000
  private static let maximumDays = 366

  func answer(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    let name = request.value("list")
    guard let kind = name == nil ? kinds.first : kinds.first(where: { $0.name == name }) else {
      throw Problem.invalidRequest(
        "'list' must be one of \(kinds.map(\.name).joined(separator: ", ")).")
    }
    let app = request.value("app")
    if let app { _ = try parts.catalog.app(named: app) }
    var days = kind.days
    var note: String?
    if let text = request.value("days") {
      guard let number = Int(text) else { throw Problem.invalidRequest("'days' must be a whole number.") }
      days = min(max(number, 1), Self.maximumDays)
      if days != number { note = "A list has from 1 to \(Self.maximumDays) days: \(days) are shown." }
    }
    let isCSV = request.value("format") == "csv"
    let limit = isCSV ? Self.csvLimit : Self.limit
    var filter = ListKind.Filter(app: app, now: request.instant, days: days, limit: limit + 1)
    if kind.readsDoubles { filter.doubles = try await doubles.found(at: request.instant, parts.pool) }
    // The estimates of these statements are high, and compiling one costs more than it.
    let answers = try await parts.pool.transaction(
      pipeline: ["SELECT set_config('jit', 'off', true)", kind.rows(filter)])
    let rows = try answers[1].map(ListRow.init)
    if isCSV { return .csv(ListRow.csv(rows.prefix(limit)), named: kind.name) }
    let addressed = { (list: String) in link("/console/lists", ["list": list, "app": app]) }
    return .page(
      ConsoleContent(
        title: kind.title, template: "lists",
        content: ListContent(
          title: kind.title, explanation: kind.explanation, heading: kind.heading, list: kind.name,
          kinds: kinds.map {
            ListContent.Kind(title: $0.title, address: addressed($0.name), isShown: $0.name == kind.name)
          },
          apps: parts.catalog.apps.map {
            ListContent.AppChoice(id: $0.bundleID, words: $0.name, isChosen: $0.bundleID == app)
          },
          days: days, note: note,
          rows: rows.prefix(limit).map {
            ListContent.Line($0, of: kind, parts.catalog, products, from: request.instant)
          },
          count: kind.count(rows.count, limit: limit),
          csv: link(
            "/console/lists",
            ["list": kind.name, "app": app, "days": "\(days)", "format": "csv"]))))
  }
}

private struct ListRow: Sendable {
  let at: Date?
  let customer: String?
  let purchase: String?
  let app: String?
  let product: String?
  let what: String?

  init(_ row: Row) throws {
    at = try row.decode("at")
    customer = try row.decode("customer")
    purchase = try row.decode("purchase")
    app = try row.decode("bundle_id")
    product = try row.decode("product_id")
    what = try row.decode("what")
  }

  static func csv(_ rows: some Sequence<ListRow>) -> String {
    var text = "at,customer,purchase,app,product,what\r\n"
    for row in rows {
      let values = [row.at?.rfc3339ForCSV, row.customer, row.purchase, row.app, row.product, row.what]
      text += values.map { ($0 ?? "").csvValue }.joined(separator: ",") + "\r\n"
    }
    return text
  }
}

extension Date {
  fileprivate var rfc3339ForCSV: String { RFC3339.string(from: self) }
}

extension String {
  /// The text as a value of a CSV file. A spreadsheet would run a text that begins like a formula.
  var csvValue: String {
    let first = unicodeScalars.first
    let text = first.map { "=+-@\t\r".unicodeScalars.contains($0) } == true ? "'" + self : self
    let isPlain = text.utf8.allSatisfy { $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: "\"") && $0 >= 0x20 }
    return isPlain ? text : "\"" + text.replacing("\"", with: "\"\"") + "\""
  }
}

private struct ListContent: Sendable {
  let title: String
  let explanation: String
  let heading: String
  let list: String
  let kinds: [Kind]
  let apps: [AppChoice]
  let days: Int
  /// What differs from what was asked for.
  let note: String?
  let rows: [Line]
  /// The number of rows in words; `nil` without rows.
  let count: String?
  let csv: String

  struct Kind: Sendable {
    let title: String
    let address: String
    let isShown: Bool
  }

  struct AppChoice: Sendable {
    let id: String
    let words: String
    let isChosen: Bool
  }

  struct Line: Sendable {
    let at: Moment?
    let customer: String?
    let customerPath: String?
    let purchase: String?
    let purchasePath: String?
    let app: String?
    let appID: String?
    let product: String?
    /// The most characters of a reason or an error on the page. The CSV file has all.
    private static let mostWords = 160

    /// The ids of what has short names.
    let productID: String?
    let what: String?

    init(
      _ row: ListRow, of kind: ListKind, _ catalog: AppCatalog, _ products: [String: String], from now: Date
    ) {
      let path = kind.isUnproven ? Console.searchPath : Console.customerPath
      at = row.at.map { Moment($0, from: now) }
      customer = row.customer
      customerPath = row.customer.map(path)
      purchase = row.purchase
      purchasePath = row.purchase.map(path)
      app = row.app.map { catalog[$0]?.name ?? $0 }
      appID = row.app
      // A customer who bought twice may have several.
      product = row.product.map {
        $0.split(separator: ", ").map { products[String($0)] ?? String($0) }.joined(separator: ", ")
      }
      productID = product == row.product ? nil : row.product
      what = row.what.map { $0.count > Self.mostWords ? $0.prefix(Self.mostWords) + "…" : $0 }
    }
  }
}
