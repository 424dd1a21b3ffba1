import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService
@testable import Support

@Suite struct ExtensionErasureTests {
  @Test func `an extension beside an erasure is recorded without its reason`() async throws {
    try await withHarness(role: nil) { harness in
      let (user, bought) = try await harness.customer()
      harness.store.add(.slow(1).at(.extend).next(1))
      let author = try #require(Harness.makeAuthor("ada", "asked by \(user.uuidString)"))
      async let extended = harness.service.support.renewalExtensions.extend(
        bought.originalTransactionID, days: 5, reasonCode: 1, by: author)
      try await Task.sleep(for: .milliseconds(400))
      try await harness.erase(user.uuidString)
      #expect(try await extended.isComplete)
      #expect(
        try await harness.tables(with: user.uuidString, except: ["profiles", "user_preferences"]) == [])
      #expect(try await harness.actions().map(\.reason) == ["asked by letter", "(erased)"])
    }
  }
}
