import AppStoreSimulator
import Testing

@testable import ReceiptService

@Suite struct ConcurrentExtensionTests {
  @Test func `two requests at once extend a subscription once`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let ada = try #require(Harness.ada)
      func isExtended() async -> Bool {
        let extensions = harness.service.renewalExtensions
        return (try? await extensions.extend(bought.originalTransactionID, days: 5, reasonCode: 1, by: ada))
          != nil
      }
      async let first = isExtended()
      async let second = isExtended()
      let ends = await [first, second]
      #expect(ends.count { $0 } == 1)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }
}
