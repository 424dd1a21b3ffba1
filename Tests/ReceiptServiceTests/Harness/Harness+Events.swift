import AppStore
import AppStoreSimulator
import Foundation
import Testing

extension Harness {
  /// Performs a command in the store and delivers its notification.
  @discardableResult
  func happens(_ command: SubscriptionCommand, to originalTransactionID: String) async throws -> SignedOutcome
  {
    let outcome = try store.perform(command, on: originalTransactionID)
    try await arrives(outcome)
    return outcome
  }

  /// Delivers all notifications of an event.
  func arrives(_ outcome: SignedOutcome) async throws {
    for notification in [outcome.notification] + outcome.others { await arrives(notification) }
  }

  /// Delivers a notification.
  func arrives(_ notification: SignedNotification) async {
    let attempt = await store.deliver(notification.uuid)
    #expect(attempt?.outcome.status == 200)
  }

  /// A user with a purchase whose notification was delivered.
  func customer(
    buys productID: String = TestApps.monthly
  ) async throws -> (user: UUID, bought: SignedOutcome) {
    let user = UUID()
    let bought = try buy(productID, token: user)
    try await arrives(bought)
    return (user, bought)
  }

  /// The premium response for the user.
  func premium(_ user: UUID) async throws -> Answer {
    let answer = try await profile(of: user, token: try await token(for: user))
    #expect(answer.status == 200)
    return answer
  }

  func isPremium(_ user: UUID) async throws -> Bool {
    try await premium(user).bool("isPremium") == true
  }

  /// The response to a device that validates a purchase.
  func device(_ name: String, shows purchase: SignedOutcome, secret: String? = nil) async throws -> Answer {
    let answer = try await validate(
      ["signedTransaction": purchase.signedTransaction, "deviceID": name], secret: secret)
    #expect(answer.status == 200)
    return answer
  }

  /// Sells the family app's products as subscriptions that are renewed monthly.
  func sellFamilySubscriptions() throws {
    var app = try #require(store.app(TestApps.family))
    app.products[TestApps.individual] = .subscription(TestApps.individual, rank: 1)
    app.products[TestApps.familyPlan] = .subscription(TestApps.familyPlan, rank: 2, isFamilyShareable: true)
    store.put(app)
  }
}

extension SubscriptionCommand {
  /// A full refund of the latest transaction.
  static let refundLatest = refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason)
}
