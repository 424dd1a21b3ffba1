import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

@Suite struct DoctorUnownedPurchaseTests {
  private func message(_ harness: Harness) async -> String? {
    var message: String?
    let doctor = Doctor(environment: harness.environment, clock: harness.clock.service)
    _ = await doctor.check { if $0.subject == "purchases without a customer" { message = $0.message } }
    return message
  }

  @Test func `the doctor counts valid purchases, known for a day, that no customer has proved`() async throws
  {
    try await withHarness { harness in
      let unshown = try (0..<2).map { _ in try harness.buy() }
      let refunded = try harness.buy()
      for bought in unshown + [refunded, try harness.buy(token: UUID())] {
        #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      }
      let refund = try harness.store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
        on: refunded.originalTransactionID)
      #expect(try await harness.notify(refund.notification.signedPayload).status == 200)
      let (erased, _) = try await harness.customer()
      try await harness.erase(erased.uuidString)
      #expect(await message(harness) == nil)

      harness.clock.advance(days: 2)
      #expect(await message(harness)?.hasPrefix("com.example.climbing: 2; ") == true)

      let user = UUID()
      let token = try await harness.token(for: user)
      for bought in unshown {
        let shown = try await harness.sync([bought.signedTransaction], user: user, token: token)
        #expect(shown.status == 200)
      }
      #expect(await message(harness) == nil)
    }
  }
}
