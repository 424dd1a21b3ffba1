import AppStore
import Foundation
import Postgres
import Subscriptions

extension StoreCallQueue {
  /// Answers a question about a refund, or writes down why not.
  func answer(_ call: StoreCall, of app: App) async throws {
    guard let answer = try await refundAnswer(to: call, of: app) else {
      return try await settle(
        call, .notNeeded, "the transaction is not stored", recording: record(call, nil))
    }
    switch answer.decision(at: clock.now()) {
    case .wait(let reason): try await pause(call, call.isUncertain ? StoreCallRows.underWay : reason)
    case .settle(let outcome, let reason):
      // An earlier attempt had begun, so the App Store may have the answer.
      try await settle(call, call.isUncertain ? .unknown : outcome, reason, recording: record(call, answer))
    case .send(let decided):
      let request = try await recorded(decided, for: call)
      try await send(call, recording: record(call, answer)) { api throws(AppStoreServerError) in
        try await api.sendConsumption(of: call.transactionID, request, in: call.environment)
      }
    }
  }

  /// Writes the answer before it is sent. A repeated attempt sends what the first one sent: the App Store may have it.
  private func recorded(_ request: ConsumptionRequest, for call: StoreCall) async throws -> ConsumptionRequest
  {
    if let body = call.body {
      _ = try await pool.query(StoreCallRows.record(body, of: call.id))
      return try JSONDecoder().decode(ConsumptionRequest.self, from: Data(body.text.utf8))
    }
    _ = try await pool.query(
      StoreCallRows.record(JSONText(utf8: try JSONEncoder().encode(request)), of: call.id))
    return request
  }

  /// What is known about the request now; `nil` if the transaction is not stored.
  private func refundAnswer(to call: StoreCall, of app: App) async throws -> RefundAnswer? {
    let answers = try await pool.withConnection { connection in
      try await connection.pipeline([
        RefundAnswerRows.transaction(call.transactionID),
        RefundAnswerRows.customer(of: call.originalTransactionID),
        RefundAnswerRows.preference(of: call.originalTransactionID),
      ])
    }
    guard let row = answers[0].first else { return nil }
    let transaction = try TransactionRows.decode(row)
    let customer = answers[1].first
    return RefundAnswer(
      policy: app.refundAnswers, preference: try RefundAnswerRows.decodePreference(answers[2]),
      transaction: transaction, accessDays: app.product(named: transaction.productID)?.accessDays,
      isDelivered: try customer?.decode("is_counted", as: Bool.self) ?? false,
      hasSample: app.trial != nil || !app.free.ordered.isEmpty,
      hasConsent: try customer?.decode("is_given", as: Bool?.self) ?? false,
      askedAt: call.askedAt, deadline: call.deadline)
  }

  /// The record of an answer in `support_actions`, by support's person or by the app's policy.
  private func record(
    _ call: StoreCall, _ answer: RefundAnswer?
  ) -> @Sendable (StoreCallOutcome, String?) -> Query? {
    let instant = clock.now()
    return { outcome, reason in
      var details: [String: JSONValue] = [
        "outcome": .string(outcome.rawValue), "transactionID": .string(call.transactionID),
      ]
      if let preference = answer?.preference { details["preferredBy"] = .string(preference.by) }
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
}
