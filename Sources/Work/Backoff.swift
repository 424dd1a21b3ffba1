import Foundation
import Platform

extension Backoff {
  /// The delays between attempts to deliver a row: two seconds, doubling, at most an hour. Half of each is random.
  package static let delivery = Backoff(base: .seconds(2), maximum: .seconds(3_600), jitter: 0.5)

  /// The delay in seconds after this number of consecutive failures, at least 1.
  package func seconds(afterFailures failures: Int, random: Double = .random(in: 0...1)) -> TimeInterval {
    delay(afterFailures: failures, random: random) / .seconds(1)
  }
}
