import AppStore
import Configuration
import Customers
import Deliveries
import Foundation
import HTTP
import JSON
import Ledger
import Postgres
import Subscriptions
import Text

/// A question of the App Store about a refund (`CONSUMPTION_REQUEST`), in a report.
package struct ReportedRefundRequest: Sendable {
  /// The transaction whose refund the customer requests.
  package var transactionID: String
  /// The customer's reason, in Apple's words.
  package var reason: String?
  package var askedAt: Date
  /// After this the App Store takes no answer.
  package var deadline: Date
  /// `nil` while it waits.
  package var outcome: StoreCallOutcome?
  /// When it was sent, or when it was decided that nothing is sent; `nil` while it waits.
  package var settledAt: Date?
  /// Whether the customer consents now.
  package var hasConsent: Bool
  /// Why it waits, or why nothing was sent; `nil` for an answer that was sent.
  package var because: String?
  /// What was sent, or what would be sent now; `nil` if nothing is sent.
  package var answer: String?
  /// The person whose preference the answer follows; `nil` for the app's policy.
  package var preferredBy: String?

  /// `waiting`, or the value of ``outcome``.
  package var state: String { outcome?.rawValue ?? "waiting" }
}

extension ReportedRefundRequest {
  /// - Parameters:
  ///   - row: of ``RefundAnswerRows/requests(of:limit:)``.
  ///   - known: what is known about it now; `nil` if its app is not configured or its transaction is not stored.
  ///   - hasKey: whether the app has a key for the App Store.
  init(_ call: StoreCall, _ row: Row, _ known: RefundAnswer?, hasKey: Bool, at instant: Date) throws {
    transactionID = call.transactionID
    reason = try row.decode("request_reason")
    (askedAt, deadline) = (call.askedAt, call.deadline)
    outcome = try row.decode("outcome", as: String?.self).flatMap(StoreCallOutcome.init)
    settledAt = try row.decode("settled_at")
    hasConsent = known?.hasConsent ?? false
    let lastError: String? = try row.decode("last_error")
    let body = try call.body.map {
      try JSONDecoder().decode(ConsumptionRequest.self, from: Data($0.text.utf8))
    }
    switch outcome {
    case .sent?: answer = body.flatMap { known?.sentence(of: $0) }
    case .refused?, .unknown?: (answer, because) = (body.flatMap { known?.sentence(of: $0) }, lastError)
    case .some: because = lastError
    case nil:
      let waits = Self.waiting(call, known, lastError, hasKey: hasKey, at: instant)
      (answer, because) = (body.flatMap { known?.sentence(of: $0) } ?? waits.answer, waits.because)
    }
    preferredBy = call.preferredBy ?? (outcome == nil && answer != nil ? known?.preference?.by : nil)
  }

  /// Why a request waits, and what would be sent.
  private static func waiting(
    _ call: StoreCall, _ known: RefundAnswer?, _ lastError: String?, hasKey: Bool, at instant: Date
  ) -> (because: String?, answer: String?) {
    guard let known else {
      return (lastError ?? "the app is not configured, or the transaction is not stored", nil)
    }
    if call.isUncertain { return (StoreCallRows.underWay, nil) }
    switch known.decision(at: instant) {
    case .wait(let reason), .settle(_, let reason):
      let consent =
        known.hasConsent || reason.contains("consent") ? "" : "; the customer has not consented either"
      return (reason + consent, nil)
    case .send(let request):
      let sentence = known.sentence(of: request)
      guard hasKey else { return ("no App Store Connect key is configured for the app", sentence) }
      return (call.attempts > 0 ? lastError : nil, sentence)
    }
  }

  func write(to output: inout TerminalText) {
    let reason = reason.map { " (\($0))" } ?? ""
    output.line("refund of \(transactionID) requested \(askedAt.rfc3339)\(reason)", indent: 4)
    let why = because.map { ": \($0)" } ?? ""
    let when = settledAt.map { " \($0.rfc3339)" } ?? ""
    let line =
      switch outcome {
      case nil: "no answer yet, Apple takes one until \(deadline.rfc3339)\(why)"
      case .sent?: "answered\(when)"
      case .unknown?: "answered or not, unknown\(when)\(why)"
      case .refused?: "Apple refused the answer\(when)\(why)"
      case .repeated?: "not answered\(when): the answer to another request of the transaction was sent"
      case .late?, .noConsent?, .noAnswer?, .notNeeded?: "not answered\(when)\(why)"
      }
    output.line(line, indent: 6)
    guard let answer else { return }
    let person = preferredBy.map { ", as \($0) set it" } ?? ", by the app's refundAnswers"
    output.line("\(outcome == nil ? "the answer" : "told Apple"): \(answer)\(person)", indent: 6)
  }
}

extension ReportedRefundRequest: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("answer", answer)
      json.member("askedAt", askedAt)
      json.member("because", because)
      json.member("deadline", deadline)
      json.member("hasConsent", hasConsent)
      json.member("preferredBy", preferredBy)
      json.member("reason", reason)
      json.member("settledAt", settledAt)
      json.member("state", state)
      json.member("transactionID", transactionID)
    }
  }
}

extension RefundAnswer.Preference {
  /// What Apple is told, in words.
  package var words: String {
    switch choice {
    case .grant: "we prefer that Apple refunds"
    case .decline: "we prefer that Apple declines"
    case .none: "we have no preference"
    }
  }
}

extension SupportDesk {
  /// The maximum number of purchases whose preference a report looks up.
  private static let refundPreferences = 20

  /// Support's preferences about refunds of these purchases, by `originalTransactionID`.
  func refundPreferences(
    of purchases: [String], _ connection: PostgresConnection
  ) async throws -> [String: RefundAnswer.Preference] {
    let purchases = purchases.prefix(Self.refundPreferences)
    guard !purchases.isEmpty else { return [:] }
    let answers = try await connection.pipeline(purchases.map(RefundAnswerRows.preference(of:)))
    return try zip(purchases, answers).reduce(into: [:]) {
      $0[$1.0] = try RefundAnswerRows.decodePreference($1.1)
    }
  }

  /// The maximum number of refund requests in a report. Those that wait come first.
  private static let refundRequests = 10

  /// The questions about refunds of these purchases, by `originalTransactionID`.
  func refundRequests(
    of purchases: [String], at instant: Date, _ connection: PostgresConnection
  ) async throws -> [String: [ReportedRefundRequest]] {
    guard !purchases.isEmpty else { return [:] }
    var requests: [String: [ReportedRefundRequest]] = [:]
    for row in try await connection.query(
      RefundAnswerRows.requests(of: purchases, limit: Self.refundRequests))
    {
      guard let call = try StoreCall(row) else { continue }
      var known: RefundAnswer?
      if let app = catalog[call.bundleID] { known = try await RefundAnswer(to: call, of: app, connection) }
      requests[call.originalTransactionID, default: []].append(
        try ReportedRefundRequest(
          call, row, known, hasKey: apis[call.bundleID] != nil, at: instant))
    }
    return requests
  }
}
