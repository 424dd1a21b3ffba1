import AppStore
import CoreMetrics
import PrometheusText

/// The outcomes of verifications of signed data.
struct VerificationMetrics: Sendable {
  /// The counters of successes by subject.
  private let good: [VerificationFailure.Subject: Counter]
  private let bad: HandleTable<Failure, Counter>

  private struct Failure: Hashable {
    var subject: VerificationFailure.Subject
    var code: VerificationFailure.Code
  }

  init(_ registry: PrometheusRegistry) {
    func counter(_ subject: VerificationFailure.Subject, _ outcome: String) -> Counter {
      Counter(
        label: "receiptd_verifications_total",
        dimensions: [("subject", subject.rawValue), ("outcome", outcome)], factory: registry)
    }
    let subjects: [VerificationFailure.Subject] = [
      .notification, .transaction, .renewalInfo, .appTransaction,
    ]
    good = Dictionary(uniqueKeysWithValues: subjects.map { ($0, counter($0, "ok")) })
    bad = HandleTable { failure in
      Counter(
        label: "receiptd_verifications_total",
        dimensions: [("subject", failure.subject.rawValue), ("outcome", failure.code.rawValue)],
        factory: registry)
    }
  }

  @Sendable
  func record(_ subject: VerificationFailure.Subject, _ failure: VerificationFailure.Code?) {
    if let failure {
      bad[Failure(subject: subject, code: failure)].increment()
    } else {
      good[subject]?.increment()
    }
  }
}
