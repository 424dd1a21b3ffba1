import CoreMetrics
import Foundation
import PrometheusText

/// The configuration in use and the outcome of the last reload, so that servers with different configurations are noticed.
struct ConfigurationMetrics: Sendable {
  private let digests: HandleTable<String, Meter>
  private let loadedAt: Meter
  private let isFailing: Meter

  init(_ registry: PrometheusRegistry) {
    digests = HandleTable { digest in
      Meter(label: "receiptd_configuration_info", dimensions: [("digest", digest)], factory: registry)
    }
    loadedAt = Meter(label: "receiptd_configuration_loaded_seconds", factory: registry)
    isFailing = Meter(label: "receiptd_configuration_failing", factory: registry)
  }

  /// - Parameters:
  ///   - digest: of the configuration that was loaded.
  ///   - former: the digest of the configuration that it replaces.
  func loaded(_ digest: String, at instant: Date, insteadOf former: String?) {
    if let former { digests[former].set(0) }
    digests[digest].set(1)
    loadedAt.set(instant.timeIntervalSince1970)
    isFailing.set(0)
  }

  func failed() { isFailing.set(1) }
}
