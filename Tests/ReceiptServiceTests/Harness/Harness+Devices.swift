import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Testing

@testable import Ledger

/// ScreenTime Rewards of the shipped configuration: trials and paired devices.
enum ScreenTime {
  static let bundleID = "com.screentimerewards"
  static let individual = "com.screentimerewards.individual.monthly"
  static let family = "com.screentimerewards.family.monthly"
  /// Another app of that configuration with devices as customers, without a trial.
  static let heatlab = "com.heatlab.app"

  static let day: TimeInterval = 86_400

  static func configuration() throws -> String {
    let file = URL(filePath: Harness.migrations).deletingLastPathComponent().appending(
      path: "config/apps.json")
    return try String(contentsOf: file, encoding: .utf8)
  }

  /// The promised features of each state.
  static let promised: [String: [String: String]] = [
    "trial": row("allowed", "allowed", "5", "basic", dashboard: "allowed"),
    "grace": row("warning", "warning", "1", "warning", dashboard: "warning"),
    "lockout": row("denied", "denied", "0", "denied"), "individual": row("allowed", "allowed", "1", "basic"),
    "family": row("allowed", "allowed", "5", "advanced", dashboard: "allowed", support: "allowed"),
  ]

  private static func row(
    _ challenges: String, _ tracking: String, _ devices: String, _ analytics: String,
    dashboard: String = "denied", support: String = "denied"
  ) -> [String: String] {
    [
      "challengeCreation": challenges, "screenTimeTracking": tracking, "childDevices": devices,
      "analytics": analytics, "viewHistory": "allowed", "subscriptionManagement": "allowed",
      "multiChildDashboard": dashboard, "prioritySupport": support,
    ]
  }
}

/// Runs a test on a receiptd with the shipped configuration.
func withScreenTime(_ body: (Harness) async throws -> Void) async throws {
  try await withHarness(configuration: ScreenTime.configuration(), body)
}

extension Answer {
  /// Every feature of the entitlements as text.
  var features: [String: String]? {
    (self["entitlements.features"] as? [String: Any])?.mapValues { "\($0)" }
  }

  /// The paired devices, as `name status`.
  var children: [String]? {
    (self["children"] as? [[String: Any]])?.map { "\($0["childDeviceID"] ?? "") \($0["status"] ?? "")" }
  }
}

extension Harness {
  /// A launch of the app on a device.
  /// - Parameter account: the Apple Account; `nil` for a new one.
  /// - Parameter app: the app of the app transaction that the device sends.
  func launch(
    _ device: String, account: String? = nil, bundleID: String = ScreenTime.bundleID,
    of app: String = ScreenTime.bundleID, in environment: AppStore.Environment = .production,
    secret: String? = nil
  ) async throws -> Answer {
    let signed = try store.appTransaction(of: app, accountID: account, in: environment).signed
    return try await launch(device, showing: signed, bundleID: bundleID, secret: secret)
  }

  func launch(
    _ device: String, showing signed: String, bundleID: String = ScreenTime.bundleID,
    secret: String? = nil
  ) async throws -> Answer {
    let members = ["deviceID": device, "bundleID": bundleID, "signedAppTransaction": signed]
    return try await send(
      .post, "/api/v1/trials", json: String(decoding: JSONEncoder().encode(members), as: UTF8.self),
      secret: secret)
  }

  func entitlements(_ device: String) async throws -> Answer {
    let answer = try await send(
      .get, "/api/v1/devices/\(device)/entitlements?bundleID=\(ScreenTime.bundleID)")
    #expect(answer.status == 200)
    return answer
  }

  /// A device buys a product and validates it.
  @discardableResult
  func device(_ name: String, buys productID: String) async throws -> SignedOutcome {
    let bought = try buy(productID, bundleID: ScreenTime.bundleID)
    try await arrives(bought)
    _ = try await device(name, shows: bought)
    return bought
  }

  func pair(
    _ child: String, to device: String, name: String? = nil, secret: String? = nil
  ) async throws -> Answer {
    let members = ["childDeviceID": child, "name": name].compactMapValues(\.self)
    return try await send(
      .post, "/api/v1/devices/\(device)/children?bundleID=\(ScreenTime.bundleID)",
      json: String(decoding: JSONEncoder().encode(members), as: UTF8.self), secret: secret)
  }

  /// Pairs `child-1`, `child-2` and so on, a second apart.
  func pair(_ count: Int, to device: String) async throws {
    for number in 1...count {
      #expect(try await pair("child-\(number)", to: device).status == 201)
      clock.advance(seconds: 1)
    }
  }

  func children(
    of device: String, bundleID: String = ScreenTime.bundleID, secret: String? = nil
  ) async throws -> Answer {
    try await send(.get, "/api/v1/devices/\(device)/children?bundleID=\(bundleID)", secret: secret)
  }

  func unpair(_ child: String, from device: String, secret: String? = nil) async throws -> Answer {
    try await send(
      .delete, "/api/v1/devices/\(device)/children/\(child)?bundleID=\(ScreenTime.bundleID)",
      secret: secret)
  }
}

/// Sends `count` requests concurrently.
func atOnce(
  _ count: Int, _ ask: @escaping @Sendable (Int) async throws -> Answer
) async throws -> [Answer] {
  try await withThrowingTaskGroup(of: Answer.self) { group in
    for number in 1...count { group.addTask { try await ask(number) } }
    return try await group.reduce(into: []) { $0.append($1) }
  }
}
