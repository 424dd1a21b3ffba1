import AppStore
import AppStoreSimulator
import Foundation
import Subscriptions
import Testing

@testable import Deliveries
@testable import ReceiptService

/// The test apps, whose events go to one receiver: one app of users without a grace period, one app of devices with a
/// trial and a grace period.
enum EventApps {
  static let all = LifecycleEventType.allCases.map(\.rawValue)

  static func configuration(_ receiver: WebhookReceiver, _ events: [String]? = all) -> String {
    let webhooks = "\"webhooks\": [\(WebhookReceiver.webhook(receiver.url, events: events))]"
    return TestApps.json
      .replacing(#""name": "Climbing","#, with: #""name": "Climbing", \#(webhooks),"#)
      .replacing(
        #""name": "Family","#,
        with: #""name": "Family", \#(webhooks), "trial": { "days": 30, "features": { "childDevices": 5 } },"#)
  }
}

/// Runs a test with a receiptd that sends lifecycle events to a receiver.
func withEvents(
  _ events: [String]? = EventApps.all, _ body: (Harness, WebhookReceiver) async throws -> Void
) async throws {
  try await withReceiver(configuration: { EventApps.configuration($0, events) }, body)
}

extension Harness {
  /// Lets time pass, runs the sweeps, and delivers.
  func timePasses(days: Double = 0) async throws {
    clock.advance(days: days)
    try await sweepAndDeliver()
  }

  func sweepAndDeliver() async throws {
    _ = try await service.sweep.run()
    _ = try await service.deliveries.eventSweep.run()
    try await service.deliveries.outbox.run()
  }

  /// Sets the clock to an instant, runs the sweeps, and delivers.
  func becomes(_ instant: Date) async throws {
    clock.set(instant)
    try await sweepAndDeliver()
  }
}

extension WebhookReceiver {
  /// The types of the received events, in the order of the alphabet: requests run side by side.
  var types: [String] { events.map(\.type).sorted() }

  func first(_ type: LifecycleEventType) throws -> Event {
    try #require(events.first { $0.type == type.rawValue })
  }
}

extension WebhookReceiver.Event {
  var type: String { value("type") as? String ?? "" }

  func text(_ path: String) -> String? { value("data." + path) as? String }
}
