import AppStore
import AppStoreSimulator
import Foundation
import TestProcess
import Testing

@testable import ReceiptService

/// An app that `scripts/add-app` added.
@Suite struct FifthAppTests {
  private static let bundleID = "com.example.fifth"
  private static let monthly = "com.example.fifth.monthly"
  private static let issuer = "https://fifth.supabase.co/auth/v1"

  /// The shipped configuration with an app that the script added.
  private func add(_ arguments: [String]) async throws -> String {
    let file = FileManager.default.temporaryDirectory.appending(path: "apps-\(UUID()).json")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data(ScreenTime.configuration().utf8).write(to: file)
    let script = URL(filePath: Harness.migrations).deletingLastPathComponent()
      .appending(path: "scripts/add-app")
    let arguments =
      ["--file", file.path, "--bundle", Self.bundleID, "--apple-id", "1500000005", "--name", "Fifth"]
      + ["--tier", "plus:insights=true,historyDays=null", "--product", "\(Self.monthly)=plus,fifth.monthly"]
      + ["--free", "insights=false,historyDays=7"] + arguments
    try await Command(script.path, arguments).output()
    return try String(contentsOf: file, encoding: .utf8)
  }

  @Test func `an app with users that add-app added serves validate, webhook, profile sync and entitlements`()
    async throws
  {
    let configuration = try await add([
      "--customer", "user", "--issuer", Self.issuer, "--secret-env", "FIFTH_SECRET", "--write-to", "profiles",
      "--write-to", "user_preferences",
    ])
    try await withHarness(configuration: configuration, environment: ["FIFTH_SECRET": Harness.secret]) {
      harness in
      let (anna, boris) = (UUID(), UUID())
      func token(_ user: UUID) async throws -> String {
        try await harness.token(for: user) { $0.iss = Self.issuer }
      }
      let free = try await harness.profile(of: anna, token: token(anna))
      #expect(free.features == ["insights": "0", "historyDays": "7"])

      // The webhook: a purchase with the user's token, its renewal and its refund.
      let bought = try harness.buy(Self.monthly, bundleID: Self.bundleID, token: anna)
      try await harness.arrives(bought)
      let premium = try await harness.profile(of: anna, token: token(anna))
      #expect(premium.bool("isPremium") == true)
      #expect(premium.string("entitlements.tier") == "plus")
      #expect(premium.isNull("entitlements.features.historyDays"))
      #expect(try await harness.profileRow(of: anna)?.product == Self.monthly)
      #expect(try await harness.isPremiumInPreferences(anna) == true)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(try await harness.profile(of: anna, token: token(anna)).bool("isPremium") == true)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.profile(of: anna, token: token(anna)).bool("isPremium") == false)
      #expect(try await harness.profileRow(of: anna)?.product == nil)

      // Validate with signed data and with an id; profile sync with an alias of a product.
      let other = try harness.buy("fifth.monthly", bundleID: Self.bundleID)
      let validated = try await harness.validate(
        ["transactionID": other.transactionID, "bundleID": Self.bundleID], token: token(boris))
      #expect(validated.status == 200)
      #expect(validated.string("subscription.productID") == Self.monthly)
      let synced = try await harness.sync([other.signedTransaction], user: boris, token: token(boris))
      #expect(synced.bool("isPremium") == true)
      #expect(try await harness.profileRow(of: boris)?.product == Self.monthly)
    }
  }

  @Test func `an app with devices that add-app added serves two devices of one account`()
    async throws
  {
    let configuration = try await add(["--customer", "device", "--devices-per-purchase", "2"])
    try await withHarness(configuration: configuration) { harness in
      let bought = try harness.buy(Self.monthly, bundleID: Self.bundleID)
      try await harness.arrives(bought)
      for device in ["phone", "watch"] {
        let shown = try await harness.device(device, shows: bought)
        #expect(shown.string("entitlements.tier") == "plus")
      }
      for device in ["phone", "watch"] {
        let answer = try await harness.entitlements(device, of: Self.bundleID)
        #expect(answer.bool("entitlements.isAccessGranted") == true)
        #expect(answer.bool("entitlements.features.insights") == true)
      }
    }
  }
}
