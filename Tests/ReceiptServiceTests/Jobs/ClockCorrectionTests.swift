import AppStoreSimulator
import Foundation
import Logging
import Postgres
import Testing
import Work

@testable import ReceiptService

/// The correction of a server's wrong clock by the database's clock.
@Suite struct ClockCorrectionTests {
  private func logger(_ lines: LogLines) -> Logger { Logger(label: "tests") { _ in lines } }

  @Test(arguments: [-3_600.0, 3_600.0])
  func `a server clock that is off is corrected, with one line in the log`(seconds: TimeInterval) async throws
  {
    try await withHarness { harness in
      let lines = LogLines()
      let correction = ClockCorrection(of: ServiceClock { Date() + seconds })
      let clock = correction.clock
      #expect(abs(clock.now().timeIntervalSince(Date() + seconds)) < 60)
      for _ in 0..<3 { await correction.measure(harness.pool, logger(lines)) }
      #expect(abs(clock.now().timeIntervalSince(Date())) < 60)
      #expect(lines.all.count == 1)
      #expect(lines.all.first?.contains("seconds-ahead") == true)
    }
  }

  @Test func `a correct server clock is not changed, and a correction ends when the clock is correct again`()
    async throws
  {
    try await withHarness { harness in
      let lines = LogLines()
      let hand = ManualClock()
      hand.set(Date() + 3_600)
      let correction = ClockCorrection(of: hand.service)
      await correction.measure(harness.pool, logger(lines))
      #expect(correction.clock.now() != hand.service.now())
      hand.set(Date())
      await correction.measure(harness.pool, logger(lines))
      #expect(correction.clock.now() == hand.service.now())
      #expect(lines.all.count == 2)
      #expect(lines.all.last?.contains("agrees") == true)
    }
  }

  @Test func `the jobs of a server with its clock ahead end no access early`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let ahead = try await Service(
        settings: Harness.settings(harness.environment, .seconds(60)),
        clock: ServiceClock { Date() + 400 * 86_400 }, logger: logger(LogLines()))
      await ahead.sweep.clockCorrection.measure(harness.pool, logger(LogLines()))
      #expect(try await ahead.sweep.run() == 0)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
      #expect(try await harness.isPremiumInPreferences(user) == true)
      await ahead.close()
    }
  }
}
