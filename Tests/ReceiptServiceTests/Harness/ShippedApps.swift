import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Testing

@testable import ReceiptService

/// SwiftClimb of the shipped configuration.
enum SwiftClimb {
  static let bundleID = "com.swiftclimb.app"
  static let monthly = "com.swiftclimb.premium.monthly"
  static let annual = "com.swiftclimb.premium.annual"
}

/// Thaqalayn of the shipped configuration.
enum Thaqalayn {
  static let bundleID = "com.thaqalayn.app"
  static let tafsir = "com.thaqalayn.premium.tafsir"
}

/// Heatlab of the shipped configuration.
enum Heatlab {
  static let bundleID = "com.heatlab.app"
  static let monthly = "com.heatlab.pro.monthly"
  static let annual = "com.heatlab.pro.annual"

  /// The configuration with this number of devices for a purchase of Heatlab.
  static func sharing(among devices: Int) -> (String) -> String {
    {
      $0.replacing(
        #""bundleID": "\#(bundleID)","#,
        with: #""bundleID": "\#(bundleID)", "devicesPerPurchase": \#(devices),"#)
    }
  }
}

/// Runs a test with the shipped configuration, optionally changed.
func withShippedApps(
  _ change: (String) -> String = { $0 }, _ body: (Harness) async throws -> Void
) async throws {
  try await withHarness(
    configuration: change(ScreenTime.configuration()),
    environment: ["SWIFTCLIMB_JWT_SECRET": Harness.secret, "THAQALAYN_JWT_SECRET": Harness.secret], body)
}

/// A user of one of the shipped apps, with an access token of its authentication server.
struct ShippedUser: Sendable {
  let harness: Harness
  let id = UUID()
  let bundleID: String

  private var issuer: String { bundleID == SwiftClimb.bundleID ? "swiftclimb" : "thaqalayn" }

  var token: String {
    get async throws {
      try await harness.token(for: id) { $0.iss = "https://\(issuer).supabase.co/auth/v1" }
    }
  }

  /// The user buys with the `appAccountToken` that the app passes to StoreKit, and the notification is delivered.
  func buys(_ productID: String, account: String? = nil) async throws -> SignedOutcome {
    let bought = try harness.store.buy(
      PurchaseRequest(
        bundleID: bundleID, productID: productID, accountID: account, appAccountToken: id))
    try await harness.arrives(bought)
    return bought
  }

  /// Syncs the device's purchases; returns the premium response.
  func syncs(_ purchases: [SignedOutcome]) async throws -> Answer {
    try await harness.sync(purchases.map(\.signedTransaction), user: id, token: token)
  }

  /// Fetches the premium response.
  func fetches(sourceLocation: SourceLocation = #_sourceLocation) async throws -> Answer {
    let answer = try await harness.profile(of: id, token: token)
    #expect(answer.status == 200, sourceLocation: sourceLocation)
    return answer
  }

  func validates(_ purchase: SignedOutcome) async throws -> Answer {
    try await harness.validate(["signedTransaction": purchase.signedTransaction], token: token)
  }

  func isPremium() async throws -> Bool? { try await fetches().bool("isPremium") }
}

extension Harness {
  func user(of bundleID: String) -> ShippedUser { ShippedUser(harness: self, bundleID: bundleID) }

  /// The entitlements response for a device of an app.
  func entitlements(_ device: String, of bundleID: String) async throws -> Answer {
    try await send(.get, "/api/v1/devices/\(device)/entitlements?bundleID=\(bundleID)")
  }
}
