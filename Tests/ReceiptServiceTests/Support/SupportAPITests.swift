import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

@Suite struct SupportAPITests {
  private func ask(
    _ harness: Harness, _ path: String, _ members: [String: Any]? = nil,
    token: String? = Harness.supportToken
  ) async throws -> Answer {
    let body = try members.map {
      String(decoding: try JSONSerialization.data(withJSONObject: $0), as: UTF8.self)
    }
    return try await harness.send(
      body == nil ? .get : .post, "/support/v1/" + path, json: body, token: token,
      to: harness.adminAddress)
  }

  @Test func `the support API has every action of the commands and records it`() async throws {
    try await withHarness { harness in
      let who = ["by": "ada", "reason": "ticket 812"]
      let user = UUID().uuidString.lowercased()
      let granted = try await ask(
        harness, "grant",
        ["customer": user, "bundleID": TestApps.climbing, "tier": "premium", "days": 7, "force": true]
          .merging(who) { a, _ in a })
      #expect(granted.status == 201)
      let grant = try #require(granted.string("grant"))
      #expect(granted.date("endsAt") == harness.clock.now + 7 * 86_400)

      let story = try await ask(harness, "customer/\(user)")
      #expect(story.status == 200)
      #expect((story["customers"] as? [[String: Any]])?.first?["customer"] as? String == user)

      let revoked = try await ask(harness, "revoke-grant", ["grant": grant].merging(who) { a, _ in a })
      #expect(revoked.bool("isChanged") == true)

      let bought = try harness.buy()
      try await harness.arrives(bought)
      let moved = try await ask(
        harness, "transfer",
        ["originalTransactionID": bought.originalTransactionID, "to": user].merging(who) { a, _ in a })
      #expect(moved.string("to") == user)

      let free = try await ask(
        harness, "free-access", ["state": "on", "bundleID": TestApps.family].merging(who) { a, _ in a })
      #expect(free.bool("isOn") == true)

      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), 'phone', \(now), \(now + 86_400))
        """)
      let trial = ["deviceID": "phone", "bundleID": TestApps.family, "days": 7] as [String: Any]
      #expect(
        try await ask(harness, "extend-trial", trial.merging(who) { a, _ in a }).date("endsAt")
          == now + 8 * 86_400)
      let again = try await ask(harness, "extend-trial", trial.merging(who) { a, _ in a })
      #expect(again.status == 409)
      #expect(again.code == "already_done")

      let replayed = try await ask(
        harness, "replay",
        ["notificationUUID": bought.notification.uuid].merging(who) { a, _ in a })
      #expect(replayed.bool("isProcessed") == true)
      #expect(
        try await harness.actions().map(\.action)
          == ["grant", "revoke-grant", "transfer", "free-access", "extend-trial", "replay"])
      #expect(
        try await harness.actions().allSatisfy { $0.by == "machine for ada" && $0.reason == "ticket 812" })
    }
  }

  @Test func `an id with U+0000 is refused as an id that nothing has`() async throws {
    try await withHarness { harness in
      let author = ["by": "ada", "reason": "ticket 812"]
      for id in ["\0", "1\u{0}2", "a\u{0}b"] {
        let transfer = try await ask(
          harness, "transfer",
          ["originalTransactionID": id, "to": UUID().uuidString].merging(author) { a, _ in a })
        #expect(transfer.status == 404)
        #expect(transfer.code == "not_found")
        let answer = try await ask(
          harness, "refund-answer", ["id": id, "prefer": "none"].merging(author) { a, _ in a })
        #expect(answer.status == 404)
        #expect(answer.code == "not_found")
      }
    }
  }

  @Test func `every support request without the token is refused`() async throws {
    try await withHarness { harness in
      let user = UUID().uuidString
      let grant: [String: Any] = [
        "customer": user, "bundleID": TestApps.climbing, "tier": "premium", "days": 7, "by": "eve",
        "reason": "x",
      ]
      let short = String(Harness.supportToken.dropLast())
      for token in [nil, "", "x", short, Harness.supportToken + "x", Harness.supportToken.uppercased()] {
        let answer = try await ask(harness, "grant", grant, token: token)
        #expect(answer.status == 401, "\(token ?? "none")")
        #expect(answer.code == "unauthenticated")
        #expect(try await ask(harness, "customer/\(user)", token: token).status == 401)
      }
      // The clients' port does not have these routes.
      let elsewhere = try await harness.send(
        .get, "/support/v1/customer/\(user)", token: Harness.supportToken, to: harness.address)
      #expect(elsewhere.status == 404)
      #expect(try await harness.count("grants") == 0)
    }
  }

  @Test func `a server without SUPPORT_TOKEN has no support API`() async throws {
    try await withHarness { harness in
      let service = try await harness.service(
        configuration: TestApps.json, settings: ["SUPPORT_TOKEN": ""])
      #expect(!service.adminRouter.routes.contains { $0.pattern.hasPrefix("/support") })
      await service.close()
    }
  }

  @Test func `a refused support action gets a public error code and a sentence`() async throws {
    try await withHarness { harness in
      let who = ["by": "ada", "reason": "ticket 812"]
      let user = UUID().uuidString
      let cases: [(String, [String: Any], Int, String)] = [
        ("grant", ["customer": user, "bundleID": "none", "tier": "premium", "days": 7], 404, "not_found"),
        (
          "grant", ["customer": user, "bundleID": TestApps.climbing, "tier": "x", "days": 7], 404, "not_found"
        ),
        (
          "grant", ["customer": user, "bundleID": TestApps.climbing, "tier": "premium", "days": -1], 400,
          "invalid_request"
        ),
        ("grant", ["customer": user], 400, "invalid_request"),
        ("revoke-grant", ["grant": user], 404, "not_found"),
        ("revoke-grant", ["grant": "no uuid"], 400, "invalid_request"),
        ("revoke-grant", ["grant": "-\(user.dropFirst())"], 400, "invalid_request"),
        ("transfer", ["originalTransactionID": "1", "to": user], 404, "not_found"),
        ("free-access", ["state": "maybe", "bundleID": TestApps.family], 400, "invalid_request"),
        ("replay", ["notificationUUID": user], 404, "not_found"),
        ("replay", ["notificationUUID": " \(user.dropFirst())"], 400, "invalid_request"),
      ]
      for (path, members, status, code) in cases {
        let answer = try await ask(harness, path, members.merging(who) { a, _ in a })
        #expect(answer.status == status, "\(path) \(members)")
        #expect(answer.code == code, "\(path) \(members)")
      }
      let nameless = try await ask(
        harness, "free-access", ["state": "on", "bundleID": TestApps.family, "by": "", "reason": "x"])
      #expect(nameless.code == "invalid_request")
      #expect(try await ask(harness, "customer/nobody").status == 404)
      #expect(try await harness.actions().isEmpty)
    }
  }
}
