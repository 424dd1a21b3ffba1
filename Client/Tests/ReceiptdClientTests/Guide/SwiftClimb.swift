import Foundation
import ReceiptdClient

struct ClimbingFeatures: Codable, Sendable {
  var sessionHistoryDays: Limit
  var insights: Bool
  var outdoorSearch: Bool

  static let free = ClimbingFeatures(sessionHistoryDays: 30, insights: false, outdoorSearch: false)
}

struct ClimbingPlan: Sendable {
  let receiptd: Receiptd<ClimbingFeatures>

  /// - Parameter session: the Supabase access token; `true` asks for a new one.
  init(server: URL, session: @escaping @Sendable (Bool) async throws -> String?) {
    let configuration = ReceiptdConfiguration(server: server, bundleID: "com.swiftclimb.app")
    receiptd = Receiptd(configuration, free: .free, token: session)
  }

  /// The sessions to show, and how many the paywall promises.
  func history<Session>(_ sessions: [Session], date: (Session) -> Date) -> (visible: [Session], hidden: Int) {
    HistoryWindow(days: receiptd.current.features.sessionHistoryDays).split(sessions, at: Date(), date: date)
  }

  /// Why outdoor search shows a paywall; `nil` where it is open.
  var outdoorPaywall: PaywallReason? {
    receiptd.current.features.outdoorSearch ? nil : PaywallReason(receiptd.current)
  }
}
