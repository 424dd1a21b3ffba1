import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

/// Canonically equivalent Unicode strings are equal in Swift, but not in PostgreSQL.
@Suite struct DeviceNameTests {
  private let composed = "t\u{e9}l\u{e9}phone"
  private let decomposed = "te\u{301}le\u{301}phone"

  @Test func `two canonically equivalent device ids are one device`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.launch(composed, account: "anna").status == 201)
      let again = try await harness.launch(decomposed, account: "anna")
      #expect(again.status == 200)
      #expect(again.string("entitlements.status") == "trial")
      #expect(try await harness.count("trials") == 1)
      #expect(try await harness.pair(composed, to: "parent").status == 409)
      _ = try await harness.launch("parent")
      #expect(try await harness.pair(composed, to: "parent").status == 201)
      #expect(try await harness.pair(decomposed, to: "parent").status == 200)
      #expect(try await harness.count("devices") == 1)
    }
  }

  @Test func `two canonically equivalent device ids count once for a shared purchase`() async throws {
    try await withShippedApps { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      try await harness.arrives(bought)
      for device in [composed, decomposed] {
        #expect(try await harness.device(device, shows: bought).string("entitlements.tier") == "pro")
      }
      let path = decomposed.utf8.map { String(format: "%%%02X", $0) }.joined()
      let answer = try await harness.entitlements(path, of: Heatlab.bundleID)
      #expect(answer.string("entitlements.tier") == "pro")
      #expect(try await harness.count("purchase_devices") == 1)
    }
  }
}
