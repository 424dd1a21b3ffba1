import AppStore
import AppStoreSimulator
import Foundation
import Testing
import Text

@testable import ReceiptService

/// A year of business in the simulated store: trials, two tiers, products of three apps, four countries, a price
/// change, refunds and late notifications. It tells receiptd by notifications, and keeps what is true of the store.
struct StoryYear {
  private let harness: Harness
  private var random: SeededGenerator
  private var steps: [(at: Date, order: Int, step: Step)] = []
  private var customers: [Customer] = []
  private var order = 0
  private(set) var truth = Truth()

  private struct Customer {
    var name: String
    var app: String
    var country: Country
    var current: TransactionInfo?
    var isRenewing = true
    var isRefunded = false
  }

  private enum Step {
    case launch(Int)
    case buy(Int)
    case end(Int, transactionID: String)
    case turnOff(Int, transactionID: String)
    case change(Int, transactionID: String)
    case recover(Int, transactionID: String)
    case giveUp(Int, transactionID: String)
    case refund(Int, transactionID: String)
    case reverse(Int, transactionID: String)
    case arrive(SignedOutcome)
    case count
  }

  private enum Country: String, CaseIterable {
    case usa = "USA"
    case germany = "DEU"
    case japan = "JPN"
    case kuwait = "KWT"

    var currency: String {
      switch self {
      case .usa: "USD"
      case .germany: "EUR"
      case .japan: "JPY"
      case .kuwait: "KWD"
      }
    }

    /// The price of a product in thousandths of the currency's unit.
    func price(of productID: String, isLater: Bool) -> Int64 {
      Self.prices(productID, isLater)[Self.allCases.firstIndex(of: self) ?? 0]
    }

    private static func prices(_ productID: String, _ isLater: Bool) -> [Int64] {
      switch productID {
      case ScreenTime.individual:
        isLater ? [9_990, 9_990, 1_500_000, 2_950] : [7_990, 8_490, 1_200_000, 2_450]
      case ScreenTime.family: [12_990, 13_990, 1_900_000, 3_990]
      case StoryYear.monthly: isLater ? [5_990, 6_490, 700_000, 1_525] : [4_990, 5_490, 700_000, 1_525]
      case StoryYear.annual: [39_990, 44_990, 5_900_000, 12_250]
      default: [990, 1_090, 150_000, 305]
      }
    }
  }

  static let monthly = "com.heatlab.pro.monthly"
  static let annual = "com.heatlab.pro.annual"

  init(_ harness: Harness, seed: UInt64) {
    self.harness = harness
    random = SeededGenerator(seed: seed)
  }

  // MARK: Play

  /// Plays the year. The job counts the days at the end of each quarter; afterwards notifications of these days arrive.
  mutating func play(customers count: Int) async throws {
    let start = try harness.day("01-01").start
    let apps =
      Array(repeating: ScreenTime.bundleID, count: 2) + [ScreenTime.heatlab, ScreenTime.heatlab]
      + [Thaqalayn.bundleID]
    for number in 0..<count {
      let app = apps[Int.random(in: 0..<5, using: &random)]
      let country = Country.allCases.randomElement(using: &random) ?? .usa
      customers.append(Customer(name: "customer \(number)", app: app, country: country))
      let hasTrial = app == ScreenTime.bundleID && chance(0.6)
      plan(hasTrial ? .launch(number) : .buy(number), at: start + days(0...330))
    }
    for month in ["04-01", "07-01", "10-01"] { plan(.count, at: try harness.day(month).start + 43_200) }

    let end = try harness.day("12-31").end + 36_000
    while let next = steps.first, next.at < end {
      steps.removeFirst()
      harness.clock.set(max(next.at, harness.clock.now))
      try await take(next.step)
    }
    harness.clock.set(end)
    for case .arrive(let late) in steps.map(\.step) { try await harness.arrives(late) }
    harness.clock.advance(seconds: 7_200)
    truth.now = harness.clock.now.milliseconds
  }

  private mutating func take(_ step: Step) async throws {
    switch step {
    case .launch(let number): try await launch(number)
    case .buy(let number): try await buy(number)
    case .end(let number, let id): if isCurrent(id, number) { try await end(number) }
    case .turnOff(let number, let id):
      if isCurrent(id, number), customers[number].isRenewing { try await turnOff(number) }
    case .change(let number, let id):
      if isCurrent(id, number), customers[number].isRenewing { try await change(number) }
    case .recover(let number, let id):
      if isCurrent(id, number), customers[number].isRenewing { try await perform(.recover, number) }
    case .giveUp(let number, let id):
      guard isCurrent(id, number) else { return }
      customers[number].isRenewing = false
      tell(.init(original: try current(number).originalTransactionId, reason: "billing", at: now))
      try await perform(.expire(.billingError), number, isPeriod: false)
    case .refund(let number, let id): try await refund(id, number)
    case .reverse(let number, let id):
      if customers[number].current?.transactionId == id { customers[number].isRefunded = false }
      try await perform(.reverseRefund(transactionID: id), number, isPeriod: false)
    case .arrive(let late): try await harness.arrives(late)
    case .count: try await harness.countWhatIsDue()
    }
  }

  private mutating func launch(_ number: Int) async throws {
    let customer = customers[number]
    #expect(try await harness.launch(customer.name, account: customer.name).status == 201)
    truth.trials.append(
      Truth.Trial(
        app: customer.app, account: customer.name, started: now,
        ends: (harness.clock.now + 30 * ScreenTime.day).milliseconds))
    if chance(0.7) { plan(.buy(number), at: harness.clock.now + days(1...50)) }
  }

  private mutating func buy(_ number: Int) async throws {
    let customer = customers[number]
    try price(for: customer)
    let productID =
      switch customer.app {
      case ScreenTime.bundleID: chance(0.6) ? ScreenTime.individual : ScreenTime.family
      case ScreenTime.heatlab: chance(0.7) ? Self.monthly : Self.annual
      default: Thaqalayn.tafsir
      }
    var offer: StoreOffer?
    if customer.app != Thaqalayn.bundleID, chance(0.5) {
      let price = customer.country.price(of: productID, isLater: false) / 2
      offer =
        customer.app == ScreenTime.heatlab && customer.current == nil
        ? .freeTrial() : .discount(.offerCode, price: price, identifier: "SPRING")
    }
    let request = PurchaseRequest(
      bundleID: customer.app, productID: productID, accountID: customer.name, offer: offer)
    let bought: SignedOutcome
    do {
      bought = try harness.store.buy(request, in: .production)
    } catch is StoreRefusal {
      // The customer has bought again meanwhile.
      return
    }
    customers[number].isRenewing = true
    customers[number].isRefunded = false
    try await tell(bought, number, mayBeLate: false)
    if customer.app == ScreenTime.bundleID { _ = try await harness.device(customer.name, shows: bought) }
  }

  /// The end of a period: a renewal, a failed charge, or the end of the subscription.
  private mutating func end(_ number: Int) async throws {
    guard customers[number].isRenewing else {
      tell(.init(original: try current(number).originalTransactionId, reason: "customer", at: now))
      try await perform(.expire(nil), number, isPeriod: false)
      if chance(0.3) { plan(.buy(number), at: harness.clock.now + days(3...60)) }
      return
    }
    if chance(0.88) { return try await perform(.renew, number) }
    tell(.init(original: try current(number).originalTransactionId, reason: "billing", at: now))
    let id = try current(number).transactionId
    let hasGrace = chance(0.5)
    try await perform(.failToRenew(grace: hasGrace), number, isPeriod: false, mayBeLate: false)
    if chance(0.6) {
      plan(.recover(number, transactionID: id), at: harness.clock.now + days(1...6))
    } else if !hasGrace {
      plan(.giveUp(number, transactionID: id), at: harness.clock.now + days(5...20))
    }
  }

  private mutating func turnOff(_ number: Int) async throws {
    customers[number].isRenewing = false
    tell(.init(original: try current(number).originalTransactionId, on: false, at: now))
    try await perform(.setAutoRenew(false), number, isPeriod: false)
    guard chance(0.3) else { return }
    harness.clock.advance(seconds: 60)
    customers[number].isRenewing = true
    tell(.init(original: try current(number).originalTransactionId, on: true, at: now))
    try await perform(.setAutoRenew(true), number, isPeriod: false)
  }

  /// An upgrade, which takes effect at once, or a downgrade at the next renewal.
  private mutating func change(_ number: Int) async throws {
    let present = try current(number).productId
    let other =
      switch present {
      case ScreenTime.individual: ScreenTime.family
      case ScreenTime.family: ScreenTime.individual
      case Self.monthly: Self.annual
      default: Self.monthly
      }
    try await perform(
      .changeProduct(other), number, isPeriod: present == ScreenTime.individual, mayBeLate: false)
  }

  private mutating func refund(_ id: String, _ number: Int) async throws {
    let isCurrent = isCurrent(id, number)
    if isCurrent, customers[number].isRenewing, try current(number).expiresDate != nil {
      tell(.init(original: try current(number).originalTransactionId, on: false, at: now))
    }
    if isCurrent {
      customers[number].isRenewing = false
      customers[number].isRefunded = true
    }
    let command = SubscriptionCommand.refund(
      transactionID: id, percentage: chance(0.3) ? 40 : nil,
      reason: chance(0.5) ? .refundedDueToIssue : .refundedForOtherReason)
    try await perform(command, number, isPeriod: false)
    if chance(0.25) {
      plan(.reverse(number, transactionID: id), at: harness.clock.now + days(1...9))
    } else if isCurrent, chance(0.5) {
      plan(.buy(number), at: harness.clock.now + days(10...60))
    }
  }

  // MARK: The store

  private mutating func perform(
    _ command: SubscriptionCommand, _ number: Int, isPeriod: Bool = true, mayBeLate: Bool = true
  ) async throws {
    try price(for: customers[number])
    let outcome = try harness.store.perform(command, on: current(number).originalTransactionId)
    if isPeriod {
      try await tell(outcome, number, mayBeLate: mayBeLate)
    } else {
      truth.note(outcome.transaction, customers[number].name)
      try await deliver(outcome, mayBeLate: mayBeLate)
    }
  }

  /// Notes a new period, and plans what happens to it.
  private mutating func tell(
    _ outcome: SignedOutcome, _ number: Int, mayBeLate: Bool
  ) async throws {
    let period = outcome.transaction
    customers[number].current = period
    truth.note(period, customers[number].name)
    let id = period.transactionId
    let length = period.expiresDate.map { $0.timeIntervalSince(harness.clock.now) } ?? 100 * ScreenTime.day
    if let end = period.expiresDate {
      plan(.end(number, transactionID: id), at: end + Double(Int.random(in: 0...7_200, using: &random)))
      if chance(0.12) { plan(.turnOff(number, transactionID: id), at: harness.clock.now + length * 0.4) }
      if chance(0.08), length > 10 * ScreenTime.day {
        plan(.change(number, transactionID: id), at: harness.clock.now + length * 0.6)
      }
    }
    if chance(0.06), (period.price ?? 0) > 0 {
      plan(.refund(number, transactionID: id), at: harness.clock.now + min(length * 0.8, days(2...45)))
    }
    try await deliver(outcome, mayBeLate: mayBeLate)
  }

  private mutating func deliver(_ outcome: SignedOutcome, mayBeLate: Bool) async throws {
    if mayBeLate, chance(0.08) {
      plan(.arrive(outcome), at: harness.clock.now + days(1...60))
    } else {
      try await harness.arrives(outcome)
    }
  }

  /// Sets the prices of the customer's country. On 1 July the monthly plans become dearer.
  private func price(for customer: Customer) throws {
    let isLater = harness.clock.now >= (try harness.day("07-01").start)
    for id in try #require(harness.store.app(customer.app)).products.keys {
      try harness.sell(
        id, at: customer.country.price(of: id, isLater: isLater), customer.country.currency, of: customer.app,
        in: customer.country.rawValue)
    }
  }

  private mutating func tell(_ change: Truth.RenewalChange) { truth.renewalChanges.append(change) }
  private mutating func tell(_ end: Truth.End) { truth.ends.append(end) }

  // MARK: Time and chance

  private var now: Int64 { harness.clock.now.milliseconds }

  private func current(_ number: Int) throws -> TransactionInfo { try #require(customers[number].current) }

  /// Whether a transaction is the customer's latest, and not refunded.
  private func isCurrent(_ id: String, _ number: Int) -> Bool {
    customers[number].current?.transactionId == id && !customers[number].isRefunded
  }

  private mutating func plan(_ step: Step, at date: Date) {
    order += 1
    let place = steps.firstIndex { $0.at > date } ?? steps.count
    steps.insert((date, order, step), at: place)
  }

  private mutating func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }

  private mutating func days(_ range: ClosedRange<Int>) -> TimeInterval {
    Double(Int.random(in: range, using: &random)) * ScreenTime.day
      + Double(Int.random(in: 0..<86_400, using: &random))
  }
}
