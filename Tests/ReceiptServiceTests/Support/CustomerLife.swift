import Actions
import AppStore
import AppStoreSimulator
import Customers
import Foundation
import Testing

@testable import ReceiptService
@testable import Support

/// A random life of a few customers of one shipped app: purchases and what the App Store tells of them, trials, grants,
/// free access, and what support does. It ends at the present, because the support views use the database's clock.
struct CustomerLife {
  let seed: UInt64
  let bundleID: String
  /// Devices, or users by their ids.
  let customers: [String]
  private let products: [String]
  private let tiers: [String]
  private let users: [ShippedUser]
  private var random: SeededGenerator
  private var bought: [SignedOutcome] = []
  private var grants: [UUID] = []
  /// What happened, for the report of a failure.
  private(set) var history: [String] = []

  init(seed: UInt64, of bundleID: String, in harness: Harness) {
    self.seed = seed
    self.bundleID = bundleID
    random = SeededGenerator(seed: seed)
    switch bundleID {
    case ScreenTime.bundleID:
      (products, tiers) = ([ScreenTime.individual, ScreenTime.family], ["individual", "family"])
    case Heatlab.bundleID: (products, tiers) = ([Heatlab.monthly, Heatlab.annual], ["pro"])
    case SwiftClimb.bundleID: (products, tiers) = ([SwiftClimb.monthly, SwiftClimb.annual], ["premium"])
    default: (products, tiers) = ([Thaqalayn.tafsir], ["premium"])
    }
    let isOfUsers = [SwiftClimb.bundleID, Thaqalayn.bundleID].contains(bundleID)
    users = isOfUsers ? (0..<3).map { _ in harness.user(of: bundleID) } : []
    customers = isOfUsers ? users.map { $0.id.uuidString.lowercased() } : ["phone", "tablet", "watch"]
  }

  /// The response's entitlements of a customer.
  func answer(to customer: String, in harness: Harness) async throws -> Answer {
    if let user = user(customer) { return try await user.fetches() }
    return try await harness.entitlements(customer, of: bundleID)
  }

  /// Lives through the acts, about three months of them.
  mutating func run(_ acts: Int, in harness: Harness) async throws {
    let present = harness.clock.now
    let days = (0..<acts).map { _ in Double.random(in: 0..<8, using: &random) }
    harness.clock.set(present - (days.reduce(0, +) * 86_400).rounded())
    for pause in days {
      do {
        try await act(in: harness)
      } catch let refusal as StoreRefusal {
        history.append("  refused: \(refusal)")
      } catch let refusal as SupportRefusal {
        history.append("  refused: \(refusal)")
      }
      harness.clock.advance(seconds: (pause * 86_400).rounded())
    }
    harness.clock.set(Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down)))
    _ = try await harness.service.sweep.freeAccess.run()
    _ = try await harness.service.sweep.run()
  }

  private mutating func act(in harness: Harness) async throws {
    let ada = try #require(Harness.ada)
    let customer = pick(customers)
    switch Int.random(in: 0..<20, using: &random) {
    case 0...1 where bundleID == ScreenTime.bundleID:
      let environment = environment()
      note("\(customer) launches, \(environment)")
      _ = try await harness.launch(customer, account: "account of \(customer)", in: environment)
    case 0...5: try await buy(for: customer, in: harness)
    case 6, 7:
      guard let purchase = bought.randomElement(using: &random) else { return }
      note("\(customer) shows \(purchase.originalTransactionID)")
      try await show(purchase, to: customer, in: harness)
    case 8...13: try await event(in: harness)
    case 14:
      let (tier, days) = (pick(tiers), Int.random(in: 1...40, using: &random))
      note("grant of \(tier) to \(customer) for \(days) days")
      let given = try await harness.desk.grant(
        to: customer, bundleID: bundleID, tier: tier, days: days, by: ada, isForced: true)
      grants.append(try #require(UUID(uuidString: given.grant)))
    case 15:
      guard let grant = grants.randomElement(using: &random) else { return }
      note("the grant \(grant) is revoked")
      _ = try await harness.desk.revokeGrant(grant, by: ada)
    case 16 where bundleID == ScreenTime.bundleID:
      note("the trial of \(customer) is extended")
      _ = try await harness.desk.extendTrial(
        of: customer, bundleID: bundleID, days: Int.random(in: 1...20, using: &random), by: ada)
    case 16, 17:
      let isOn = Bool.random(using: &random)
      note("free access \(isOn ? "on" : "off")")
      _ = try await harness.desk.setFreeAccess(isOn, bundleID: bundleID, by: ada)
    case 18:
      guard let purchase = bought.randomElement(using: &random) else { return }
      note("\(purchase.originalTransactionID) is moved to \(customer)")
      _ = try await harness.desk.transfer(
        purchase.originalTransactionID, to: customer, by: ada, isForced: true)
    default:
      note("\(customer) is erased")
      _ = try await harness.desk.eraseCustomer(customer, bundleID: bundleID, by: ada, isForced: true)
    }
  }

  private mutating func buy(for customer: String, in harness: Harness) async throws {
    let product = pick(products)
    let environment = environment()
    note("\(customer) buys \(product), \(environment)")
    let purchase = try harness.store.buy(
      PurchaseRequest(
        bundleID: bundleID, productID: product, accountID: "account of \(customer)",
        appAccountToken: user(customer)?.id),
      in: environment)
    bought.append(purchase)
    if Bool.random(using: &random) { try await harness.arrives(purchase) }
    try await show(purchase, to: customer, in: harness)
  }

  private func show(_ purchase: SignedOutcome, to customer: String, in harness: Harness) async throws {
    if let user = user(customer) {
      _ = try await user.validates(purchase)
    } else {
      _ = try await harness.validate(
        ["signedTransaction": purchase.signedTransaction, "deviceID": customer])
    }
  }

  private mutating func event(in harness: Harness) async throws {
    guard let purchase = bought.randomElement(using: &random) else { return }
    let commands: [SubscriptionCommand] = [
      .renew, .renew, .failToRenew(grace: true), .failToRenew(grace: false), .recover, .endGrace,
      .expire(nil),
      .refundLatest, .reverseRefund(transactionID: nil), .setAutoRenew(false), .setAutoRenew(true),
      .changeProduct(pick(products)), .extend(days: 10),
    ]
    let command = pick(commands)
    note("\(purchase.originalTransactionID): \(command)")
    try await harness.happens(command, to: purchase.originalTransactionID)
  }

  private mutating func environment() -> AppStore.Environment {
    Int.random(in: 0..<4, using: &random) == 0 ? .sandbox : .production
  }

  private mutating func pick<Element>(_ elements: [Element]) -> Element {
    elements[Int.random(in: 0..<elements.count, using: &random)]
  }

  private mutating func note(_ what: String) { history.append(what) }

  private func user(_ customer: String) -> ShippedUser? {
    users.first { $0.id.uuidString.lowercased() == customer }
  }
}
