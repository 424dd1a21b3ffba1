import AppStore
import AppStoreSimulator
import Foundation
import HTTP
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

  @Test(arguments: ["X\u{9b}31m", "X\u{85}", "a\u{7f}", "a\u{1b}[2J"])
  func `a device id with control characters is refused`(id: String) async throws {
    #expect(throws: Problem.self) { try DeviceID(id) }
    #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .operatorNamed("ada"), reason: id) }
    #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .operatorNamed(id), reason: "x") }
    #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .machine(speakingFor: id), reason: "x") }
  }

  @Test(arguments: [
    "6F1C2B7E-9D0A-4E55-8C1B-3A4D5E6F7081", "Ärztin's iPhone", "📱", "téléphone", "手机-1", "user:42/a+b=", " ",
    "👨\u{200d}👩", "soft\u{ad}hyphen",
  ])
  func `an ordinary device id is accepted as it is`(id: String) async throws {
    #expect(try DeviceID(id).name == id)
  }

  @Test func `a stored id that a new device may not have is found, exported and erased`() async throws {
    try await withScreenTime { harness in
      let id = "X\u{9b}31m\u{202e}"
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(ScreenTime.bundleID), \(id), \(harness.clock.now), \(harness.clock.now))
        """)
      #expect(try await harness.desk.find(id).isFound)
      #expect(try await harness.desk.exportCustomer(id).tables.map(\.table) == ["trials"])
      try await harness.erase(id)
      #expect(try await harness.tables(with: id, except: ["outbox"]) == [])
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
