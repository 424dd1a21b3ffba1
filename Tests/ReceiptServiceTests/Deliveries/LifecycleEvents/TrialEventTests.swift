import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Work

@testable import Customers
@testable import Deliveries
@testable import ReceiptService
@testable import Support

extension Harness {
  /// Starts the trial of the device app.
  func startTrial(_ device: String, account: String? = nil) async throws -> Answer {
    let answer = try await launch(device, account: account, bundleID: TestApps.family, of: TestApps.family)
    #expect(answer.status == 201 || account != nil)
    return answer
  }
}

@Suite struct TrialEventTests {
  private static func daily(_ receiver: WebhookReceiver) -> String {
    EventApps.configuration(receiver, EventApps.all).replacing(
      #""trial": "#, with: #""reminders": { "graceDaily": true }, "trial": "#)
  }

  @Test func `a trial is told when it starts, three days before its end, and at its end`() async throws {
    try await withEvents { harness, receiver in
      let start = harness.clock.now
      _ = try await harness.startTrial("phone")
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["trial.started"])
      try await harness.becomes(start + 26.9 * 86_400)
      #expect(receiver.types == ["trial.started"])
      try await harness.becomes(start + 27.1 * 86_400)
      try await harness.timePasses(days: 1)
      #expect(receiver.types == ["trial.ending", "trial.started"])
      let ending = try receiver.first(.trialEnding)
      #expect(ending.text("customer.id") == "phone")
      #expect(ending.text("trial.endsAt") == RFC3339.string(from: start + 30 * 86_400))
      try await harness.becomes(start + 30 * 86_400 + 20)
      try await harness.timePasses(days: 1)
      #expect(receiver.types == ["grace.started", "trial.ended", "trial.ending", "trial.started"])
      #expect(try receiver.first(.trialEnded).value("data.trial.isConverted") as? Bool == false)
    }
  }

  @Test func `a device whose id looks like a pseudonym is told its trial`() async throws {
    try await withEvents { harness, receiver in
      _ = try await harness.startTrial("erased-phone")
      try await harness.timePasses(days: 28)
      #expect(receiver.types == ["trial.ending", "trial.started"])
    }
  }

  @Test func `an extended trial has a reminder and an end of its own`() async throws {
    try await withEvents { harness, receiver in
      _ = try await harness.startTrial("phone")
      try await harness.timePasses(days: 28)
      #expect(receiver.types == ["trial.ending", "trial.started"])
      _ = try await harness.service.support.extendTrial(
        of: "phone", bundleID: TestApps.family, days: 10, by: try #require(Harness.ada))
      try await harness.timePasses(days: 5)
      #expect(receiver.types == ["trial.ending", "trial.started"])
      try await harness.timePasses(days: 5)
      try await harness.timePasses(days: 3)
      #expect(
        receiver.types == ["grace.started", "trial.ended", "trial.ending", "trial.ending", "trial.started"])
    }
  }

  @Test func `a customer who has bought gets no reminder, and free access postpones the end`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      _ = try await harness.startTrial("payer")
      _ = try await harness.startTrial("waiter")
      _ = try await harness.deviceBuys("payer")
      try await harness.timePasses(days: 20)
      _ = try await harness.service.support.setFreeAccess(
        true, bundleID: TestApps.family, by: try #require(Harness.ada))
      try await harness.timePasses(days: 8)
      #expect(!receiver.types.contains("trial.ending"))
      _ = try await harness.service.support.setFreeAccess(
        false, bundleID: TestApps.family, by: try #require(Harness.ada))
      try await harness.timePasses(days: 6)
      #expect(!receiver.types.contains("trial.ending"))
      try await harness.timePasses(days: 2)
      #expect(
        receiver.events.filter { $0.type == "trial.ending" }.map { $0.text("customer.id") } == ["waiter"])
      try await harness.timePasses(days: 3)
      #expect(receiver.events.filter { $0.type == "trial.ended" }.count == 2)
    }
  }

  @Test func `each device that continues a trial is told its end, and only the first its start`() async throws
  {
    try await withEvents { harness, receiver in
      _ = try await harness.startTrial("old", account: "account-1")
      _ = try await harness.startTrial("new", account: "account-1")
      try await harness.timePasses(days: 31)
      #expect(
        receiver.types == ["grace.started", "grace.started", "trial.ended", "trial.ended", "trial.started"])
    }
  }

  @Test func `a device whose records cannot be read stops no other device's events`() async throws {
    try await withEvents { harness, receiver in
      _ = try await harness.startTrial("broken", account: "ann")
      _ = try await harness.startTrial("phone", account: "ben")
      let bought = try await harness.deviceBuys("broken")
      func set(_ environment: String) async throws {
        _ = try await harness.pool.query(
          """
          UPDATE subscriptions SET environment = \(environment)
          WHERE original_transaction_id = \(bought.originalTransactionID)
          """)
      }
      // The word of a later build.
      try await set("Beta")
      harness.clock.advance(days: 30.5)
      #expect(try await harness.service.deliveries.eventSweep.run() > 0)
      func ended() async throws -> [String] {
        try await harness.pool.query(
          "SELECT device_id FROM lifecycle_events WHERE type = 'trial.ended' ORDER BY 1"
        ).map { try $0.decode("device_id") }
      }
      #expect(try await ended() == ["phone"])
      try await set("Production")
      _ = try await harness.service.deliveries.eventSweep.run()
      #expect(try await ended() == ["broken", "phone"])
    }
  }

  @Test func `with graceDaily each day of grace after a trial is told once, and daysIntoTrial with its end`()
    async throws
  {
    try await withReceiver(configuration: Self.daily) { harness, receiver in
      try harness.sellFamilySubscriptions()
      _ = try await harness.startTrial("phone")
      _ = try await harness.startTrial("buyer")
      try await harness.timePasses(days: 12.5)
      _ = try await harness.deviceBuys("buyer")
      try await harness.timePasses(days: 18)
      let ended = receiver.events.filter { $0.type == "trial.ended" }
      #expect(ended.count == 2)
      for event in ended {
        let days = event.value("data.trial.daysIntoTrial") as? Int
        #expect(days == (event.text("customer.id") == "buyer" ? 12 : 30))
      }
      let started = receiver.events.filter { $0.type == "grace.started" }
      #expect(started.map { $0.text("customer.id") } == ["phone"])
      #expect(started.first?.text("grace.source") == "app")
      for day in 1...6 {
        try await harness.timePasses(days: 1)
        try await harness.timePasses()
        #expect(receiver.events.filter { $0.type == "grace.reminder" }.count == day)
      }
      try await harness.timePasses(days: 3)
      #expect(receiver.events.filter { $0.type == "grace.reminder" }.count == 6)
    }
  }

  @Test func `with graceDaily each day of grace after a purchase is told once, and none after its end`()
    async throws
  {
    try await withReceiver(configuration: Self.daily) { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try await harness.deviceBuys("phone")
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      let end = try #require(bought.transaction.expiresDate)
      try await harness.becomes(end + 10)
      #expect(!receiver.types.contains("grace.reminder"))
      for day in 1...6 {
        try await harness.becomes(end + Double(day) * 86_400 + 60)
        try await harness.timePasses()
        #expect(receiver.events.filter { $0.type == "grace.reminder" }.count == day)
      }
      try await harness.becomes(end + 9 * 86_400)
      #expect(receiver.events.filter { $0.type == "grace.reminder" }.count == 6)
    }
  }

  @Test func `the grace period of the app is told at its start, two days before its end, and at its end`()
    async throws
  {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try await harness.deviceBuys("phone")
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      let end = try #require(bought.transaction.expiresDate)
      try await harness.becomes(end + 10)
      #expect(receiver.types == ["cancelled", "grace.started", "subscription.started"])
      #expect(try receiver.first(.graceStarted).text("grace.source") == "app")
      try await harness.becomes(end + 4.9 * 86_400)
      #expect(!receiver.types.contains("grace.ending"))
      try await harness.becomes(end + 5.1 * 86_400)
      #expect(receiver.types == ["cancelled", "grace.ending", "grace.started", "subscription.started"])
      try await harness.becomes(end + 7.1 * 86_400)
      try await harness.timePasses(days: 1)
      #expect(
        receiver.types == ["cancelled", "expired", "grace.ending", "grace.started", "subscription.started"])
    }
  }

  @Test func `devices beyond the limit of a lower tier are told as paused`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      for number in 1...3 {
        let answer = try await harness.send(
          .post, "/api/v1/devices/phone/children?bundleID=\(TestApps.family)",
          json: #"{"childDeviceID": "child-\#(number)"}"#)
        #expect(answer.status == 201)
        harness.clock.advance(seconds: 1)
      }
      try await harness.happens(.changeProduct(TestApps.individual), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(!receiver.types.contains("paused_devices"))
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      for _ in 0..<2 { try await harness.sweepAndDeliver() }
      let paused = receiver.events.filter { $0.type == "paused_devices" }
      #expect(paused.count == 1)
      #expect(paused.first?.value("data.pausedDevices") as? [String] == ["child-2", "child-3"])
      #expect(paused.first?.value("data.limit") as? Int == 1)
    }
  }

  @Test func `an event that was due before an erasure is not written after it`() async throws {
    try await withEvents { harness, receiver in
      let device = "KIMS-PHONE"
      let launched = try await harness.launch(
        device, account: "kim", bundleID: TestApps.family, of: TestApps.family)
      #expect(launched.status == 201)
      harness.clock.advance(days: 31)
      let app = try #require(harness.service.catalog[TestApps.family])
      let instant = harness.clock.now
      let due = try await harness.pool.query(EventSweepRows.trials(app, 0, .start, instant, 10)).map(
        DueTrial.init)
      #expect(due.map(\.deviceID) == [device])
      try await harness.erase(device)
      #expect(
        try await harness.service.deliveries.eventSweep.writeTogether(due, of: app, at: instant) == 0)
      #expect(try await harness.tables(with: device, except: ["outbox"]) == [])
    }
  }

  @Test func `events that name a device wait while an erasure has locked it`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      for child in ["ann", "ben"] {
        _ = try await harness.send(
          .post, "/api/v1/devices/phone/children?bundleID=\(TestApps.family)",
          json: #"{"childDeviceID": "\#(child)"}"#)
        harness.clock.advance(seconds: 1)
      }
      try await harness.happens(.changeProduct(TestApps.individual), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      _ = try await harness.launch("tablet", account: "kim", bundleID: TestApps.family, of: TestApps.family)
      harness.clock.advance(days: 31)
      let paused = "lifecycle_events WHERE type = 'paused_devices'"
      let ended = "lifecycle_events WHERE type = 'trial.ended'"
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          AdvisoryLock.acquire(
            .customer, [Customer.device("ben").lockName, Customer.device("tablet").lockName]))
        _ = try await harness.service.deliveries.eventSweep.run()
        #expect(try await harness.count(paused) == 0)
        #expect(try await harness.count(ended) == 0)
      }
      _ = try await harness.service.deliveries.eventSweep.run()
      #expect(try await harness.count(paused) == 1)
      #expect(try await harness.count(ended) == 1)
    }
  }

  @Test func `an extension of a shared trial queues no state of an erased device`() async throws {
    try await withEvents(["customer.updated"]) { harness, receiver in
      for device in ["phone", "tablet"] {
        _ = try await harness.launch(device, account: "kim", bundleID: TestApps.family, of: TestApps.family)
      }
      try await harness.erase("phone")
      try await harness.service.deliveries.outbox.run()
      _ = try await harness.desk.extendTrial(
        of: "tablet", bundleID: TestApps.family, days: 7, by: #require(Harness.ada))
      #expect(try await harness.count("outbox WHERE key LIKE 'erased-%'") == 0)
      #expect(try await harness.count("outbox WHERE key = 'tablet' AND done_at IS NULL") == 1)
    }
  }

  @Test func `a parent whose records cannot be read stops no other parent's paused devices`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      var bought: [SignedOutcome] = []
      for parent in ["broken", "phone"] {
        bought.append(try harness.buy(TestApps.familyPlan, bundleID: TestApps.family))
        _ = try await harness.device(parent, shows: bought[bought.count - 1])
        for number in 1...2 {
          let answer = try await harness.send(
            .post, "/api/v1/devices/\(parent)/children?bundleID=\(TestApps.family)",
            json: #"{"childDeviceID": "\#(parent)-\#(number)"}"#)
          #expect(answer.status == 201)
          harness.clock.advance(seconds: 1)
        }
        try await harness.happens(
          .changeProduct(TestApps.individual), to: bought[bought.count - 1].originalTransactionID)
      }
      harness.clock.set(try #require(bought[1].transaction.expiresDate))
      for purchase in bought { try await harness.happens(.renew, to: purchase.originalTransactionID) }
      func set(_ environment: String) async throws {
        _ = try await harness.pool.query(
          """
          UPDATE subscriptions SET environment = \(environment)
          WHERE original_transaction_id = \(bought[0].originalTransactionID)
          """)
      }
      func paused() async throws -> [String] {
        try await harness.pool.query(
          "SELECT device_id FROM lifecycle_events WHERE type = 'paused_devices' ORDER BY 1"
        ).map { try $0.decode("device_id") }
      }
      // The word of a later build.
      try await set("Beta")
      _ = try? await harness.service.deliveries.eventSweep.run()
      #expect(try await paused() == ["phone"])
      try await set("Production")
      _ = try await harness.service.deliveries.eventSweep.run()
      #expect(try await paused() == ["broken", "phone"])
    }
  }
}
