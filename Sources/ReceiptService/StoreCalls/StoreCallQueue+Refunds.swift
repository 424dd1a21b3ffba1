import AppStore
import Foundation
import JSON
import Postgres
import Subscriptions
import Work

extension StoreCallQueue {
  /// Answers a question about a refund, or writes down why not.
  func answer(_ call: StoreCall, of app: App) async throws {
    guard let answer = try await pool.withConnection({ try await RefundAnswer(to: call, of: app, $0) })
    else {
      return try await settle(call, .notNeeded, "the transaction is not stored")
    }
    switch answer.decision(at: clock.now()) {
    case .wait(let reason): try await pause(call, call.isUncertain ? StoreCallRows.underWay : reason)
    case .settle(let outcome, let reason):
      // An earlier attempt had begun, so the App Store may have the answer.
      try await settle(call, call.isUncertain ? .unknown : outcome, reason)
    case .send(let decided):
      // An erasure or another server may have ended the call.
      guard let (request, preferredBy) = try await recorded(decided, answer.preference?.by, for: call) else {
        return
      }
      let sent = SentRefundAnswer(sentence: answer.sentence(of: request), preferredBy: preferredBy)
      try await send(call, answer: sent) { api throws(AppStoreServerError) in
        try await api.sendConsumption(of: call.transactionID, request, in: call.environment)
      }
    }
  }

  /// Writes the answer before it is sent. If an earlier attempt has no known end, this one repeats its answer: the App Store
  /// may have it.
  /// - Returns: the answer to send, and the person whose preference it follows; `nil` if the call has ended.
  private func recorded(
    _ request: ConsumptionRequest, _ preferredBy: String?, for call: StoreCall
  ) async throws -> (ConsumptionRequest, preferredBy: String?)? {
    var (sent, body, person) = (request, call.body, preferredBy)
    if let body {
      sent = try JSONDecoder().decode(ConsumptionRequest.self, from: Data(body.text.utf8))
      person = call.preferredBy
    } else {
      body = JSONText(utf8: try JSONEncoder().encode(request))
    }
    guard let body else { return nil }
    let rows = try await pool.query(StoreCallRows.record(body, preferredBy: person, of: call.id))
    return rows.affected == 1 ? (sent, person) : nil
  }

  /// The record of the end of a refund request in `support_actions`.
  func refundRecord(
    _ call: StoreCall, _ outcome: StoreCallOutcome, _ reason: String?, _ answer: SentRefundAnswer?,
    at instant: Date
  ) -> Query {
    var details: [String: JSONValue] = [
      "outcome": .string(outcome.rawValue), "transactionID": .string(call.transactionID),
    ]
    if let person = answer?.preferredBy ?? call.preferredBy { details["preferredBy"] = .string(person) }
    let action = SupportAction(
      name: "refund-answer", bundleID: call.bundleID, originalTransactionID: call.originalTransactionID,
      details: details)
    let sentence =
      switch outcome {
      case .sent: "told the App Store: \(answer?.sentence ?? "")"
      case .unknown:
        "sent or unknown: \(StoreCallRows.underWay); then: \(reason ?? "nothing")"
      case .refused: "the App Store refused the answer: \(reason ?? "")"
      default: "not answered: \(reason ?? outcome.rawValue)"
      }
    return SupportActionRows.insert([action], by: .refundPolicy(sentence), at: instant)
  }
}

/// An answer about a refund as it was sent.
struct SentRefundAnswer: Sendable {
  /// The answer in words.
  var sentence: String
  /// The person whose preference it follows; `nil` for the app's policy.
  var preferredBy: String?
}
