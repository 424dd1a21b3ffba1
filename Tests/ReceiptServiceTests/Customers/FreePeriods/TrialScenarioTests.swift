import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

/// Scenarios of trials, with every promised feature in each state.
@Suite struct TrialScenarioTests {
  private func expect(
    _ device: String, _ state: String, status: String, tier: String? = nil, in harness: Harness,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let answer = try await harness.entitlements(device)
    #expect(answer.features == ScreenTime.promised[state], sourceLocation: sourceLocation)
    #expect(answer.string("entitlements.status") == status, sourceLocation: sourceLocation)
    #expect(answer.string("entitlements.tier") == tier, sourceLocation: sourceLocation)
    #expect(
      answer.bool("entitlements.isAccessGranted") == (state != "lockout"), sourceLocation: sourceLocation)
    #expect(answer.isNull("entitlements.validUntil") == (state == "lockout"), sourceLocation: sourceLocation)
  }

  @Test func `a device has thirty days of trial, seven days of grace, then lockout until a purchase`()
    async throws
  {
    try await withScreenTime { harness in
      let start = harness.clock.now
      try await expect("phone", "lockout", status: "expired", in: harness)

      let launched = try await harness.launch("phone", account: "anna")
      #expect(launched.status == 201)
      #expect(launched.date("trial.startedAt") == start)
      #expect(launched.date("trial.endsAt") == start + 30 * ScreenTime.day)
      #expect(launched.date("entitlements.validUntil") == start + 30 * ScreenTime.day)
      try await expect("phone", "trial", status: "trial", in: harness)
      try await harness.pair(5, to: "phone")

      harness.clock.set(start + 30 * ScreenTime.day - 1)
      try await expect("phone", "trial", status: "trial", in: harness)

      harness.clock.set(start + 30 * ScreenTime.day)
      try await expect("phone", "grace", status: "grace", in: harness)
      let grace = try await harness.entitlements("phone")
      #expect(grace.date("entitlements.validUntil") == start + 37 * ScreenTime.day)
      #expect(
        try await harness.children(of: "phone").children
          == ["child-1 active"] + (2...5).map { "child-\($0) paused" })
      let refused = try await harness.pair("child-6", to: "phone")
      #expect(refused.code == "device_limit_reached")
      #expect(refused.string("error") == "Your plan allows 1 device. Upgrade to pair more.")

      harness.clock.set(start + 37 * ScreenTime.day - 1)
      try await expect("phone", "grace", status: "grace", in: harness)

      harness.clock.set(start + 37 * ScreenTime.day)
      try await expect("phone", "lockout", status: "expired", in: harness)
      let locked = try await harness.children(of: "phone")
      #expect(locked.children == (1...5).map { "child-\($0) paused" })
      #expect(locked["limit"] as? Int == 0)

      harness.clock.set(start + 38 * ScreenTime.day)
      #expect(try await harness.launch("phone", account: "anna").status == 200)
      try await expect("phone", "lockout", status: "expired", in: harness)

      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      try await expect("phone", "individual", status: "active", tier: "individual", in: harness)
      harness.clock.advance(seconds: 60)
      try await harness.happens(.changeProduct(ScreenTime.family), to: bought.originalTransactionID)
      try await expect("phone", "family", status: "active", tier: "family", in: harness)
      #expect(
        try await harness.children(of: "phone").children == (1...5).map { "child-\($0) active" })
    }
  }

  @Test func `a purchase during the trial replaces it, and its refund does not restore the trial`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "anna")
      harness.clock.advance(days: 3)
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      try await expect("phone", "individual", status: "active", tier: "individual", in: harness)
      let launched = try await harness.launch("phone", account: "anna")
      #expect(launched.status == 200)
      #expect(launched.string("entitlements.tier") == "individual")

      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end)
      try await expect("phone", "grace", status: "grace", tier: "individual", in: harness)
      harness.clock.set(end + 7 * ScreenTime.day)
      try await expect("phone", "lockout", status: "expired", in: harness)
    }
  }

  @Test func `the refund of a purchase during the trial ends access at once`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 3)
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      try await expect("phone", "family", status: "active", tier: "family", in: harness)
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await expect("phone", "lockout", status: "cancelled", in: harness)
    }
  }
}
