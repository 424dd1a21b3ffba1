import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Deliveries
@testable import Ledger
@testable import ReceiptService

/// The metrics after requests and jobs.
@Suite struct MetricsTests {
  @Test func `a sequence of requests and notifications gives exactly its metrics`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let token = try await harness.token(for: user)
      let signed = bought.signedTransaction
      #expect(try await harness.validate(["signedTransaction": signed], token: token).status == 200)
      #expect(try await harness.validate(["signedTransaction": signed], token: token).status == 200)
      #expect(try await harness.validate(["signedTransaction": "nonsense"], token: token).status == 422)
      #expect(try await harness.validate([:], token: token).status == 400)
      #expect(try await harness.sync([signed], user: user, token: token).status == 200)
      #expect(try await harness.sync(["nonsense"], user: user, token: token).status == 422)
      #expect(try await harness.sync([signed], user: user, token: nil).status == 401)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      harness.clock.advance(seconds: 60)
      // The App Store also notifies that the subscription will not renew.
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.notify(renewed.notification.signedPayload).status == 200)
      #expect(try await harness.notify("nonsense").status == 401)
      #expect(try await harness.send(.get, "/nowhere").status == 404)

      let scrape = try await harness.scrape()
      let build = BuildInfo.current
      #expect(scrape["receiptd_build_info{commit=\"\(build.commit)\",version=\"\(build.version)\"}"] == 1)
      let app = TestApps.climbing
      #expect(
        scrape.counts("receiptd_http_requests_total").filter { $0.key.contains("clients") } == [
          #"{code="200",method="POST",route="/api/v1/subscriptions/webhook",server="clients"}"#: 5,
          #"{code="401",method="POST",route="/api/v1/subscriptions/webhook",server="clients"}"#: 1,
          #"{code="200",method="POST",route="/api/v1/subscriptions/validate",server="clients"}"#: 2,
          #"{code="400",method="POST",route="/api/v1/subscriptions/validate",server="clients"}"#: 1,
          #"{code="422",method="POST",route="/api/v1/subscriptions/validate",server="clients"}"#: 1,
          #"{code="200",method="PUT",route="/api/v1/profiles/{userID}/premium",server="clients"}"#: 1,
          #"{code="401",method="PUT",route="/api/v1/profiles/{userID}/premium",server="clients"}"#: 1,
          #"{code="422",method="PUT",route="/api/v1/profiles/{userID}/premium",server="clients"}"#: 1,
          #"{code="404",method="any",route="unmatched",server="clients"}"#: 1,
        ])
      let validate = #"method="POST",route="/api/v1/subscriptions/validate",server="clients""#
      #expect(scrape["receiptd_http_request_seconds_count{\(validate)}"] == 4)
      #expect(scrape["receiptd_http_request_seconds_bucket{\(validate),le=\"+Inf\"}"] == 4)
      #expect(try #require(scrape["receiptd_http_request_seconds_sum{\(validate)}"]) > 0)
      #expect(
        scrape.counts("receiptd_validations_total") == [
          #"{app="\#(app)",outcome="ok"}"#: 2, #"{app="unknown",outcome="invalid_signature"}"#: 1,
          #"{app="unknown",outcome="invalid_request"}"#: 1,
        ])
      #expect(
        scrape.counts("receiptd_profile_syncs_total") == [
          #"{app="\#(app)",outcome="ok"}"#: 1, #"{app="\#(app)",outcome="invalid_signature"}"#: 1,
        ])
      #expect(
        scrape.counts("receiptd_notifications_total") == [
          #"{outcome="applied",subtype="INITIAL_BUY",type="SUBSCRIBED"}"#: 1,
          #"{outcome="applied",subtype="",type="DID_RENEW"}"#: 1,
          #"{outcome="duplicate",subtype="",type="DID_RENEW"}"#: 1,
          #"{outcome="applied",subtype="",type="REFUND"}"#: 1,
          #"{outcome="applied",subtype="AUTO_RENEW_DISABLED",type="DID_CHANGE_RENEWAL_STATUS"}"#: 1,
          #"{outcome="refused",subtype="",type="unknown"}"#: 1,
        ])
      #expect(scrape["receiptd_notification_lag_seconds_count"] == 4)
      #expect(
        scrape.counts("receiptd_verifications_total") == [
          #"{outcome="ok",subject="notification"}"#: 5, #"{outcome="malformed",subject="notification"}"#: 1,
          #"{outcome="ok",subject="renewal_info"}"#: 5, #"{outcome="ok",subject="transaction"}"#: 8,
          #"{outcome="malformed",subject="transaction"}"#: 2,
        ])
      for (name, count) in [
        ("purchases", 1.0), ("renewals", 1), ("renewals_due", 1), ("refunds", 1), ("trials_started", 0),
      ] {
        #expect(scrape["receiptd_\(name)_total{app=\"\(app)\"}"] == count, "\(name)")
        #expect(scrape["receiptd_\(name)_total{app=\"\(TestApps.family)\"}"] == 0, "\(name)")
      }
      #expect(scrape["receiptd_ledger_entries_total{outcome=\"committed\"}"] == 8)
      #expect(try #require(scrape["receiptd_http_connections{server=\"clients\"}"]) >= 1)
    }
  }

  @Test func `sandbox purchases do not count in the business metrics`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(in: .sandbox)
      try await harness.arrives(bought)
      let scrape = try await harness.scrape()
      #expect(scrape.counts("receiptd_notifications_total").values.reduce(0, +) == 1)
      #expect(scrape.counts("receiptd_purchases_total").isEmpty)
    }
  }

  @Test func `a purchase that is a week old when it arrives does not count in the metrics`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      harness.clock.advance(days: 8)
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.status == 200)
      #expect(try await harness.scrape().counts("receiptd_purchases_total").isEmpty)
    }
  }

  @Test func `an expired subscription counts as a renewal due and not as a renewal`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.expire(nil), to: bought.originalTransactionID)
      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_renewals_due_total{app=\"\(TestApps.climbing)\"}"] == 1)
      #expect(scrape["receiptd_renewals_total{app=\"\(TestApps.climbing)\"}"] == 0)
    }
  }

  @Test func `a trial that becomes a purchase counts as one conversion`() async throws {
    try await withScreenTime { harness in
      let app = ScreenTime.bundleID
      #expect(try await harness.launch("phone").status == 201)
      #expect(try await harness.launch("phone").status == 200)
      #expect(try await harness.launch("tablet").status == 201)
      harness.clock.advance(days: 3)
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      _ = try await harness.device("phone", shows: bought)
      try await harness.device("another", buys: ScreenTime.individual)
      harness.clock.advance(days: 28)
      await harness.service.readDatabaseGauges()

      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_trials_started_total{app=\"\(app)\"}"] == 2)
      #expect(scrape["receiptd_trials_converted_total{app=\"\(app)\"}"] == 1)
      #expect(scrape["receiptd_trials_ended_recently{app=\"\(app)\"}"] == 2)
      #expect(scrape["receiptd_trials_ended_recently_converted{app=\"\(app)\"}"] == 1)
      #expect(scrape["receiptd_purchases_total{app=\"\(app)\"}"] == 2)
    }
  }

  @Test func `a request to the App Store is counted by endpoint and outcome and continues the trace`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy()
      let members = ["transactionID": bought.transactionID, "bundleID": TestApps.climbing]
      #expect(try await harness.validate(members).status == 200)
      let scrape = try await harness.scrape()
      let lane = #"endpoint="subscriptionStatuses",environment="Production""#
      #expect(scrape["receiptd_store_calls_total{\(lane),outcome=\"ok\"}"] == 1)
      #expect(scrape["receiptd_store_call_seconds_count{\(lane)}"] == 1)
      #expect(
        scrape[#"receiptd_store_circuit_open{app="\#(TestApps.climbing)",environment="Production"}"#] == 0)
    }
  }

  @Test func `metrics are served while the database is unavailable`() async throws {
    try await withHarness { harness in
      await harness.service.readDatabaseGauges()
      #expect(try await harness.scrape()["receiptd_database_up"] == 1)
      #expect(try #require(try await harness.scrape()["receiptd_database_figures_read_seconds"]) > 0)
      await harness.pool.close()
      let bought = try harness.buy()
      let notification = bought.notification.signedPayload
      #expect(try await harness.notify(notification).status == 503)
      await harness.service.readDatabaseGauges()
      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_database_up"] == 0)
      #expect(try #require(scrape["receiptd_ledger_entries_total{outcome=\"unavailable\"}"]) == 1)
      #expect(scrape.counts("receiptd_database_errors_total").keys.contains("{kind=\"closed\"}"))
      #expect(scrape.counts("receiptd_notifications_total").isEmpty)
    }
  }

  @Test func `the gauges show the number of waiting rows, and zero without any`() async throws {
    let receiver = try WebhookReceiver()
    try await withHarness(
      configuration: WebhookReceiver.configuration([WebhookReceiver.webhook(receiver.url)]),
      environment: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    ) { harness in
      try await harness.service.deliveries.outbox.register()
      let (_, bought) = try await harness.customer()
      harness.clock.advance(seconds: 120)
      await harness.service.readDatabaseGauges()
      let place = #"app="\#(TestApps.climbing)",destination="webhook""#
      var scrape = try await harness.scrape()
      #expect(scrape["receiptd_outbox_rows{\(place),state=\"waiting\"}"] == 1)
      #expect(scrape["receiptd_outbox_rows{\(place),state=\"dead\"}"] == 0)
      #expect(scrape["receiptd_outbox_oldest_seconds{\(place)}"] == 120)
      #expect(scrape["receiptd_sweep_lag_seconds"] == 0)

      try await harness.service.deliveries.outbox.run()
      harness.clock.set(try #require(bought.transaction.expiresDate) + 90)
      await harness.service.readDatabaseGauges()
      scrape = try await harness.scrape()
      #expect(scrape["receiptd_outbox_rows{\(place),state=\"waiting\"}"] == 0)
      #expect(scrape["receiptd_outbox_oldest_seconds{\(place)}"] == 0)
      #expect(scrape["receiptd_sweep_lag_seconds"] == 90)
      #expect(
        scrape[
          #"receiptd_deliveries_total{app="\#(TestApps.climbing)",destination="webhook",outcome="delivered"}"#
        ]
          == 1)
      #expect(scrape["receiptd_delivery_seconds_count{destination=\"webhook\"}"] == 1)
      #expect(receiver.events.count == 1)
    }
    await receiver.stop()
  }
}
