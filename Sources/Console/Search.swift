import Actions
import Configuration
import Customers
import Foundation
import HTTP
import Postgres
import Subscriptions
import Support
import Text

extension Console {
  /// *Search*: what an id, an order or an address leads to; below it what came last.
  static func search(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "Search", path: "/console/search", operation: .find,
      pages: [
        ConsolePage(path: "/console/search", operation: .find) { request in
          try await SearchPage(parts: parts).answer(request)
        }
      ],
      templates: ["search": PackageResources.search_mustache])
  }

  /// The path of a customer's page.
  /// - Parameter id: anything that a search finds.
  static func customerPath(_ id: String) -> String { "/console/customer/" + id.percentEncoded }

  /// The path of a search, for an id that may be unknown.
  static func searchPath(_ id: String) -> String { link("/console/search", ["q": id]) }
}

private struct SearchPage: Sendable {
  let parts: Console.Parts

  /// The rows of each list of what came last.
  private static let latest = 12

  func answer(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    // Outer white space counts if an id has it.
    let text = request.query["q"] ?? ""
    var content = SearchContent()
    if !text.isEmpty {
      let found = try await parts.desk.find(text, by: request.actor)
      let hits =
        found.search.customers.count + (found.search.customers.isEmpty ? found.search.purchases.count : 0)
      let named = try await children(named: text)
      if found.isFound, hits == 1, found.search.refusals.isEmpty, named.isEmpty {
        return .redirect(Console.customerPath(text))
      }
      content.result = SearchContent.Result(
        found, try await parts.desk.settling(found.search.refusals), named, for: request)
    } else {
      let (notifications, refusals) = (
        LatestRows.notifications(Self.latest), LatestRows.refusals(Self.latest)
      )
      let answers = try await parts.pool.withConnection { connection in
        try await connection.pipeline([notifications, refusals])
      }
      content.latest = SearchContent.Latest(
        notifications: try answers[0].map { try SearchContent.Notification($0, from: request.instant) },
        refusals: try await parts.desk.settling(answers[1].map { try RefusedAttempt($0) })
          .map { RefusalLine($0, for: request) })
    }
    return .page(
      ConsoleContent(
        title: text.isEmpty ? "Search" : "Search: \(text)", template: "search", content: content,
        search: text, refreshes: text.isEmpty))
  }
}

extension SearchPage {
  /// The most children's devices that a search by name shows.
  fileprivate static let mostNamed = 20

  /// The children's devices whose name begins with a text, and one more than is shown.
  private func children(named text: String) async throws -> [SearchContent.NamedChild] {
    let name = text.trimmingCharacters(in: .whitespacesAndNewlines)
    guard (2...64).contains(name.count), !name.hasControlCharacters,
      parts.catalog.apps.contains(where: { $0.customer == .device })
    else { return [] }
    return try await parts.pool.query(NamedChildren.select(name, limit: Self.mostNamed + 1)).map {
      try SearchContent.NamedChild($0, parts.catalog)
    }
  }
}

private struct SearchContent: Sendable {
  var result: Result?
  var latest: Latest?

  struct Latest: Sendable {
    let notifications: [Notification]
    let refusals: [RefusalLine]
  }

  struct Result: Sendable {
    let outcome: String
    let isFound: Bool
    let detail: String
    let hits: [Hit]
    let refusals: [RefusalLine]
    let hasRefusals: Bool
    let named: [NamedChild]
    let hasNamed: Bool
    let isNamedCut: Bool

    init(
      _ found: FindResult, _ refusals: [RefusedAttempt], _ named: [NamedChild], for request: ConsoleRequest
    ) {
      isFound = found.isFound
      self.named = Array(named.prefix(SearchPage.mostNamed))
      (hasNamed, isNamedCut) = (!named.isEmpty, named.count > SearchPage.mostNamed)
      outcome =
        switch found.outcome {
        case .found: "Found"
        case _ where hasNamed: "No id, but a child's name"
        case .neverSeen: "Never seen"
        case .notAnID: "No id of these apps"
        case .askApple: "Only Apple may know this"
        }
      detail = found.isFound || named.isEmpty ? found.detail : "Children's devices have this name."
      var hits = found.search.customers.map { match in
        Hit(
          label: match.customer.id, kind: match.customer.kindWord, app: match.bundleID,
          path: Console.customerPath(match.customer.id))
      }
      if found.search.customers.isEmpty {
        hits += found.search.purchases.map {
          Hit(label: $0, kind: "purchase", app: "", path: Console.customerPath($0))
        }
      }
      self.hits = hits
      self.refusals = refusals.map { RefusalLine($0, for: request) }
      hasRefusals = !refusals.isEmpty
    }
  }

  struct Hit: Sendable {
    let label: String
    let kind: String
    let app: String
    let path: String
  }

  /// A child's device that a parent's app gave a name.
  struct NamedChild: Sendable {
    let name: String
    let child: String
    let parent: String
    let app: String
    /// The parent's page.
    let path: String

    init(_ row: Row, _ catalog: AppCatalog) throws {
      name = try row.decode("name")
      child = try row.decode("child_device_id")
      parent = try row.decode("device_id")
      let bundleID: String = try row.decode("bundle_id")
      app = catalog[bundleID]?.name ?? bundleID
      path = Console.customerPath(parent)
    }
  }

  struct Notification: Sendable {
    let at: Moment
    let type: String
    let app: String?
    let purchase: String?
    let path: String?
    let outcome: String

    init(_ row: Row, from now: Date) throws {
      at = Moment(try row.decode("received_at"), from: now)
      let subtype: String? = try row.decode("subtype")
      type =
        try row.decode("type", as: String?.self).map { $0 + (subtype.map { " · \($0)" } ?? "") } ?? "unknown"
      app = try row.decode("bundle_id")
      purchase = try row.decode("original_transaction_id")
      path = purchase.map(Console.customerPath)
      outcome = try row.decode("outcome", as: String?.self) ?? "waiting"
    }
  }
}

/// A refused request, for the partial `refusal`.
struct RefusalLine: Sendable {
  let at: Moment
  let code: String
  let route: String
  let app: String?
  /// The customer that the request named, which is unproven.
  let named: String?
  let path: String?
  let transaction: String?
  let transactionPath: String?
  let requestID: String
  /// The form that moves the purchase to the customer that the request named; `nil` once that is settled.
  let transferPath: String?
  let isSettled: Bool

  init(_ attempt: RefusedAttempt, for request: ConsoleRequest) {
    at = Moment(attempt.at, from: request.instant)
    code = attempt.code
    route = attempt.route
    app = attempt.bundleID
    named = attempt.named
    path = named.map(Console.searchPath)
    transaction = attempt.transactionID
    transactionPath = attempt.transactionID.map(Console.searchPath)
    transferPath =
      attempt.namesAnothersPurchase && !attempt.isSettled && request.may(.transfer)
      ? link(
        "/console/act/transfer", ["originalTransactionID": attempt.transactionID, "to": named, "back": named])
      : nil
    isSettled = attempt.isSettled
    requestID = attempt.requestID
  }
}

/// The children's devices by the beginning of their names.
enum NamedChildren {
  /// In any case of letters, the shortest names first. U+10FFFF comes after every other character.
  static func select(_ name: String, limit: Int) -> Postgres.Query {
    """
    SELECT name, bundle_id, device_id, child_device_id FROM devices
    WHERE lower(name) ~>=~ lower(\(name)::text) AND lower(name) ~<=~ (lower(\(name)::text) || chr(1114111))
    ORDER BY lower(name) USING ~<~ LIMIT \(limit)
    """
  }
}

/// What came last.
private enum LatestRows {
  static func notifications(_ count: Int) -> Postgres.Query {
    """
    SELECT received_at, type, subtype, bundle_id, original_transaction_id, outcome FROM notifications
    ORDER BY received_at DESC LIMIT \(count)
    """
  }

  static func refusals(_ count: Int) -> Postgres.Query {
    """
    SELECT at, bundle_id, route, user_id, device_id, transaction_id, code, request_id, address_prefix
    FROM refused_attempts ORDER BY at DESC LIMIT \(count)
    """
  }
}
