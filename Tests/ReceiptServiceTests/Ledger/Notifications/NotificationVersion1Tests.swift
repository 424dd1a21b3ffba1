import Foundation
import HTTPTypes
import Logging
import TestDatabase
import Testing

@testable import ReceiptService

/// Notifications of version 1 have no signature.
@Suite struct NotificationVersion1Tests {
  private static let password = "0123456789abcdef0123456789abcdef"

  @Test(arguments: [
    #"{"notification_type": "DID_RENEW", "password": "\#(password)", "unified_receipt": {"status": 0}}"#,
    #"{"password": "\#(password)", "unified_receipt": {"latest_receipt": "AAAA", "status": 0}, "bid": "x"}"#,
    #"{"environment": "PROD", "notification_type": "CANCEL", "password": "\#(password)"}"#,
  ])
  func `one is refused with the way to version 2, and counted`(body: String) async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let logs = LogLines()
      let harness = try await Harness(
        databaseURL: database.uri, configuration: TestApps.json, databaseTimeout: .seconds(60),
        logger: Logger(label: "tests") { _ in logs })
      let answer = try await harness.send(.post, "/api/v1/subscriptions/webhook", json: body)
      #expect(answer.status == 400)
      #expect(answer.code == "invalid_request")
      let detail = answer.string("detail") ?? ""
      #expect(detail.contains("V2") && detail.contains("App Store Connect"), "\(detail)")
      #expect(!String(decoding: answer.body, as: UTF8.self).contains(Self.password))
      let counted = try await harness.scrape()
      #expect(
        counted.counts("receiptd_notifications_total") == [
          #"{outcome="refused",subtype="",type="version 1"}"#: 1
        ])
      #expect(logs.all.contains { $0.contains("version 1") })
      #expect(!logs.all.contains { $0.contains(Self.password) })
      #expect(try await harness.count("notifications") == 0)
      await harness.stop()
    }
  }

  @Test func `a body with neither form names the missing member`() async throws {
    try await withHarness { harness in
      let answer = try await harness.send(.post, "/api/v1/subscriptions/webhook", json: "{}")
      #expect(answer.status == 400)
      #expect(answer.string("detail") == "'signedPayload' is missing.")
    }
  }
}
