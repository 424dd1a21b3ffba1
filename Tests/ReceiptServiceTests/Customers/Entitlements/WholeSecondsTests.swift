import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService

/// Responses have no fractions of a second, because clients' `ISO8601DateFormatter` does not parse them.
@Suite struct WholeSecondsTests {
  /// Every date in a JSON text by the name of its member.
  private static func times(in body: [UInt8]) throws -> [(name: String, text: String)] {
    func walk(_ value: Any, _ name: String) -> [(name: String, text: String)] {
      switch value {
      case let object as [String: Any]: object.flatMap { walk($0.value, $0.key) }
      case let array as [Any]: array.flatMap { walk($0, name) }
      case let text as String where text.prefixMatch(of: /\d{4}-\d\d-\d\dT/) != nil: [(name, text)]
      default: []
      }
    }
    return walk(try JSONSerialization.jsonObject(with: Data(body)), "")
  }

  /// Collects the dates of a response and checks that each has whole seconds.
  private static func check(_ body: [UInt8], into names: inout Set<String>) throws {
    for time in try times(in: body) {
      #expect(
        time.text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil, "\(time.name): \(time.text)")
      names.insert(time.name)
    }
  }

  @Test func `every date in a device's responses has whole seconds, rounded down`() async throws {
    try await withScreenTime { harness in
      harness.clock.advance(seconds: 0.75)
      let start = harness.clock.now
      var names: Set<String> = []
      let launched = try await harness.launch("phone")
      #expect(launched.status == 201)
      #expect(launched.string("serverTime") == Self.text(start - 0.75))
      #expect(launched.string("trial.endsAt") == Self.text(start - 0.75 + 30 * ScreenTime.day))
      #expect(launched.string("entitlements.validUntil") == launched.string("trial.endsAt"))
      var answers = [launched, try await harness.launch("phone"), try await harness.entitlements("phone")]
      answers.append(try await harness.pair("child", to: "phone"))
      answers.append(try await harness.children(of: "phone"))
      answers.append(try await harness.unpair("child", from: "phone"))
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      answers.append(try await harness.device("phone", shows: bought))
      answers.append(try await harness.launch("phone", showing: "nonsense"))
      harness.clock.set(try #require(bought.transaction.expiresDate) + 0.25)
      answers.append(try await harness.entitlements("phone"))
      answers.append(
        try await harness.send(
          .get, "/support/v1/customer/phone", token: Harness.supportToken, to: harness.adminAddress))
      for answer in answers { try Self.check(answer.body, into: &names) }
      #expect(
        names.isSuperset(of: [
          "serverTime", "startedAt", "endsAt", "validUntil", "offlineGraceUntil", "pairedAt", "expiryDate",
        ]))

      // The database stores the fraction, and decisions use it.
      let rows = try await harness.pool.query("SELECT started_at, ends_at FROM trials")
      #expect(try rows[0].decode("started_at", as: Date.self) == start)
      #expect(try rows[0].decode("ends_at", as: Date.self) == start + 30 * ScreenTime.day)
    }
  }

  @Test func `access lasts until its exact end, although the response rounds the end down`() async throws {
    try await withScreenTime { harness in
      harness.clock.advance(seconds: 0.5)
      let end = harness.clock.now + 30 * ScreenTime.day
      #expect(try await harness.launch("phone").status == 201)
      harness.clock.set(end - 0.001)
      let last = try await harness.entitlements("phone")
      #expect(last.string("entitlements.status") == "trial")
      #expect(last.string("entitlements.validUntil") == Self.text(end - 0.5))
      #expect(last.string("serverTime") == Self.text(end - 0.5))
      // A client that asks a second after `validUntil` gets the next status.
      harness.clock.set(try #require(last.date("entitlements.validUntil")) + 1)
      #expect(try await harness.entitlements("phone").string("entitlements.status") == "grace")
    }
  }

  @Test func `every date in the responses to users and to the app's own server has whole seconds`()
    async throws
  {
    let receiver = try WebhookReceiver()
    try await withHarness(
      configuration: WebhookReceiver.configuration([WebhookReceiver.webhook(receiver.url)]),
      environment: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    ) { harness in
      try await harness.service.deliveries.outbox.register()
      harness.clock.advance(seconds: 0.625)
      let user = UUID()
      var token = try await harness.token(for: user)
      let bought = try harness.buy(token: user)
      try await harness.arrives(bought)
      var answers = [
        try await harness.validate(["signedTransaction": bought.signedTransaction], token: token),
        try await harness.profile(of: user, token: token),
        try await harness.sync([bought.signedTransaction], user: user, token: token),
      ]
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let failed = try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      token = try await harness.token(for: user)
      answers.append(
        try await harness.validate(["signedTransaction": failed.signedTransaction], token: token))
      answers.append(try await harness.profile(of: user, token: token))
      try await harness.service.deliveries.outbox.run()
      var names: Set<String> = []
      for answer in answers {
        #expect(answer.status == 200)
        try Self.check(answer.body, into: &names)
      }
      #expect(
        names.isSuperset(of: [
          "serverTime", "validUntil", "expiryDate", "premiumExpiresAt", "gracePeriodExpiryDate",
        ]))
      var told: Set<String> = []
      for event in receiver.events { try Self.check(event.body, into: &told) }
      #expect(told.isSuperset(of: ["timestamp", "validUntil", "expiryDate"]))
    }
    await receiver.stop()
  }

  private static func text(_ date: Date) -> String { date.formatted(.iso8601) }
}
