import AppStore
import AppStoreSimulator
import Foundation
import Testing

extension Harness {
  /// Something happens in the store, and its notification arrives.
  @discardableResult
  func happens(_ command: SubscriptionCommand, to originalTransactionID: String) async throws -> SignedOutcome
  {
    let outcome = try store.perform(command, on: originalTransactionID)
    try await arrives(outcome)
    return outcome
  }

  /// The App Store posts the notification of what happened, and what else it sends because of it.
  func arrives(_ outcome: SignedOutcome) async throws {
    for notification in [outcome.notification] + outcome.others { await arrives(notification) }
  }

  /// The App Store posts a notification.
  func arrives(_ notification: SignedNotification) async {
    let attempt = await store.deliver(notification.uuid)
    #expect(attempt?.outcome.status == 200)
  }

  /// A user who bought, and of whose purchase receiptd was told.
  func customer(
    buys productID: String = TestApps.monthly
  ) async throws -> (user: UUID, bought: SignedOutcome) {
    let user = UUID()
    let bought = try buy(productID, token: user)
    try await arrives(bought)
    return (user, bought)
  }

  /// What the user may do, as the user's own client is told.
  func premium(_ user: UUID) async throws -> Answer {
    let answer = try await profile(of: user, token: try await token(for: user))
    #expect(answer.status == 200)
    return answer
  }

  func isPremium(_ user: UUID) async throws -> Bool {
    try await premium(user).bool("isPremium") == true
  }

  /// What a device may do, as it is told when it shows a purchase.
  func device(_ name: String, shows purchase: SignedOutcome) async throws -> Answer {
    let answer = try await validate([
      "signedTransaction": purchase.signedTransaction, "deviceID": name,
    ])
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
  /// All of the latest transaction's price.
  static let refundLatest = refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason)
}
