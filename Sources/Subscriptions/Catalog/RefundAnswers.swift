/// How an app answers the App Store's questions about refunds.
public enum RefundAnswers: String, Sendable, Hashable, CaseIterable {
  /// It does not answer.
  case none
  /// It sends facts, without a preference.
  case facts
  /// It sends facts, and prefers that the refund is granted.
  case preferGrant = "prefer-grant"
  /// It sends facts, and prefers that the refund is declined.
  case preferDecline = "prefer-decline"
}
