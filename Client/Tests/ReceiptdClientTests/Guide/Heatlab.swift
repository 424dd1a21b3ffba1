import Foundation
import ReceiptdClient

struct HeatFeatures: Codable, Sendable {
  var historyDays: Limit
  var allPeriods: Bool
  var insights: Bool

  static let free = HeatFeatures(historyDays: 7, allPeriods: false, insights: false)
}

struct HeatPlan: Sendable {
  let receiptd: Receiptd<HeatFeatures>

  init(server: URL) {
    receiptd = Receiptd(ReceiptdConfiguration(server: server, bundleID: "com.heatlab.app"), free: .free)
  }

  /// At each launch, with the `jwsRepresentation` of `Transaction.currentEntitlements`: phone, tablet and watch share the
  /// subscription of the Apple Account, and a device without one sends nothing.
  func launch(signedTransactions: [String]) async throws {
    await receiptd.signIn(.device(try receiptd.configuration.deviceID()))
    try await receiptd.sync(signedTransactions, appTransaction: nil)
  }

  func isVisible(_ measurement: Date) -> Bool {
    HistoryWindow(days: receiptd.current.features.historyDays).isVisible(measurement, at: Date())
  }
}
