import Configuration
import Foundation
import JSON
import Postgres
import Subscriptions
import Text

/// An action that affects a customer, recorded in the table `support_actions`.
package struct SupportAction: Sendable {
  /// The value of the column `action`: the command's name.
  var name: String
  /// The app; `nil` if the action is about people.
  package var bundleID: String?
  /// The purchase; `nil` if the action is about a customer.
  package var originalTransactionID: String?
  /// The customer that lost something.
  var from: Customer?
  /// The customer that gained something.
  package var to: Customer?
  /// Further values for the column `details`.
  var details: [String: JSONValue]

  package init(
    name: String, bundleID: String? = nil, originalTransactionID: String? = nil, from: Customer? = nil,
    to: Customer? = nil, details: [String: JSONValue] = [:]
  ) {
    self.name = name
    self.bundleID = bundleID
    self.originalTransactionID = originalTransactionID
    self.from = from
    self.to = to
    self.details = details
  }

  var detailsAsJSON: JSONText? {
    guard !details.isEmpty, let json = try? JSONEncoder().encode(details) else { return nil }
    return JSONText(utf8: json)
  }
}

/// The author of a support action, and the reason. Both are recorded permanently.
package struct SupportAuthor: Sendable, Hashable {
  /// The person, machine or operator, or the rule of receiptd.
  package let actor: SupportActor
  /// The reason in the actor's words.
  package let reason: String

  /// The actor's name.
  package var by: String { actor.name }

  /// - Throws: if the reason, or a name that the caller chose, is empty, too long for a log line, or has control or
  ///   invisible characters; for an operator with the name of a rule.
  package init(by actor: SupportActor, reason: String) throws(SupportRefusal) {
    switch actor {
    case .machine(let name?): try Self.check(name, named: "by", maximum: 200)
    case .operatorNamed(let name):
      try Self.check(name, named: "by", maximum: 200)
      guard !PersonName.isReserved(name) else {
        throw .invalid(
          "'\(name)' is the name of a part of receiptd in the record; give another one with --by.")
      }
    case .person, .machine(nil), .rule: break
    }
    try Self.check(reason, named: "reason", maximum: 1_000)
    self.actor = actor
    self.reason = reason
  }

  /// The author of an automatic action.
  package init(rule: String, reason: String) {
    actor = .rule(rule)
    self.reason = reason
  }

  private static func check(
    _ text: String, named name: String, maximum: Int
  ) throws(SupportRefusal) {
    guard text.utf8.contains(where: { $0 != UInt8(ascii: " ") }) else {
      throw .invalid("'\(name)' is needed: it is recorded with the action.")
    }
    guard text.utf8.count <= maximum, !text.hasControlCharacters else {
      throw .invalid("'\(name)' must be at most \(maximum) bytes without control or invisible characters.")
    }
  }
}

/// Statements on the table `support_actions`.
package enum SupportActionRows {
  /// Records actions of support.
  package static func insert(_ actions: [SupportAction], by author: SupportAuthor, at instant: Date) -> Query
  {
    """
    INSERT INTO support_actions (action, bundle_id, original_transaction_id, from_customer, to_customer,
      customer_kind, details, by, actor, person_id, reason, at)
    SELECT *, \(author.by)::text, \(author.actor.kind)::text, \(author.actor.personID)::bigint,
      \(author.reason)::text, \(instant)::timestamptz FROM unnest(
      \(actions.map(\.name))::text[], \(actions.map(\.bundleID))::text[],
      \(actions.map(\.originalTransactionID))::text[],
      \(actions.map { $0.from?.id })::text[], \(actions.map { $0.to?.id })::text[],
      \(actions.map { ($0.to ?? $0.from)?.kindWord })::text[], \(actions.map(\.detailsAsJSON))::jsonb[])
    """
  }
}

/// The error of a support action that was refused. Nothing has changed.
package struct SupportRefusal: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  package enum Kind: Sendable, Hashable {
    /// An argument has the wrong form, or does not fit the app.
    case invalid
    /// The object of the action does not exist.
    case notFound
    /// The action is possible once only, and was done before.
    case alreadyDone
    /// The actor may not do it.
    case forbidden
  }

  /// The kind of error.
  package let kind: Kind
  /// A sentence for the caller.
  package let description: String

  package static func invalid(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .invalid, description: reason)
  }

  package static func notFound(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .notFound, description: reason)
  }

  package static func alreadyDone(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .alreadyDone, description: reason)
  }

  /// The refusal of a command without a token, where people have tokens and the database's role does not own the
  /// tables.
  package static let tokenNeeded = SupportRefusal.forbidden(
    "This action is recorded with the name of a person: set RECEIPTD_TOKEN to your token. An operator with the rights of the "
      + "tables' owner needs none (receiptd-admin --owner).")

  package static func forbidden(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .forbidden, description: reason)
  }
}

extension AppCatalog {
  /// - Throws: ``SupportRefusal`` `notFound` for an app that is not configured.
  package func app(named bundleID: String) throws(SupportRefusal) -> App {
    if let app = self[bundleID] { return app }
    let known = apps.map(\.bundleID).sorted().joined(separator: ", ")
    throw .notFound("There is no app '\(bundleID)'; configured are \(known).")
  }
}
