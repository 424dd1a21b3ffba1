import CoreMetrics
import PrometheusText

/// Counts refused access tokens by reason.
struct TokenRefusalMetrics: Sendable {
  private let refusals: [TokenRefusal: Counter]

  init(_ registry: PrometheusRegistry) {
    refusals = Dictionary(
      uniqueKeysWithValues: TokenRefusal.allCases.map { refusal in
        (
          refusal,
          Counter(
            label: "receiptd_token_refusals_total", dimensions: [("reason", refusal.rawValue)],
            factory: registry)
        )
      })
  }

  func count(_ refusal: TokenRefusal) { refusals[refusal]?.increment() }
}
