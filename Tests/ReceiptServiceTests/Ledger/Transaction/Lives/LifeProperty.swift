import AppStore
import AppStoreSimulator
import Foundation
import Subscriptions

@testable import Ledger
@testable import ReceiptService

/// A property that every random life must have.
struct LifeProperty: Sendable {
  /// The property as a sentence.
  let name: String
  /// Returns the violations in words; empty if the life has the property. The generator depends on the seed only.
  let check: @Sendable (RandomLife, App, inout SeededGenerator) throws -> [String]

  init(
    _ name: String, check: @escaping @Sendable (RandomLife, App, inout SeededGenerator) throws -> [String]
  ) {
    self.name = name
    self.check = check
  }

  static let all = [
    afterEachEvent, anyOrder, lossesAndHistory, lossesAndStatuses, nothingNew, lossesAlone,
    transactionAlone,
  ]

  private static let afterEachEvent = LifeProperty(
    "after each event of a life the fold of its facts equals the store's truth"
  ) { life, app, _ in
    var known = KnownFacts()
    for event in life.events {
      for fact in event.notifications.flatMap(\.facts) { known.add(try KnownFact(fact)) }
      let found = known.disagreements(with: event.truths, under: app)
      if !found.isEmpty { return ["after \(event.what)"] + found }
    }
    return []
  }

  private static let anyOrder = LifeProperty(
    "the fold of a life's facts in any order, with repeats, equals the store's truth"
  ) { life, app, random in
    let facts = try life.facts.map(KnownFact.init)
    let known = KnownFacts(facts)
    var found = life.instants(under: app).flatMap {
      known.disagreements(with: life.truths(at: $0), under: app)
    }
    if KnownFacts(facts.reversed()) != known { found.append("the reverse order ends elsewhere") }
    for number in 1...8 {
      let repeats = (0...facts.count / 4).compactMap { _ in facts.randomElement(using: &random) }
      if KnownFacts((facts + repeats).shuffled(using: &random)) != known {
        found.append("shuffle \(number) ends elsewhere")
      }
    }
    return found
  }

  private static let lossesAndHistory = LifeProperty(
    "the notification history repairs a life with lost facts"
  ) { life, app, random in
    let kept = try life.facts.map(KnownFact.init).filter { _ in Bool.random(using: &random) }
    let history = try life.notificationFacts.map(KnownFact.init)
    var known = KnownFacts(kept.shuffled(using: &random))
    for fact in history.shuffled(using: &random) { known.add(fact) }
    return life.instants(under: app).flatMap {
      known.disagreements(with: life.truths(at: $0), under: app)
    }
  }

  private static let lossesAndStatuses = LifeProperty(
    "the statuses repair a life with lost facts, and late facts change nothing"
  ) { life, app, random in
    let facts = try life.facts.map(KnownFact.init).shuffled(using: &random)
    let late = facts.partitioned { _ in Bool.random(using: &random) }
    let statuses = try life.statuses(at: life.end).map(KnownFact.init)
    var known = KnownFacts(late.kept)
    for fact in statuses { known.add(fact) }
    let instants = life.instants(under: app)
    var found = instants.flatMap {
      known.disagreements(with: life.truths(at: $0), under: app, comparingOpenProduct: false)
    }
    for fact in late.lost { known.add(fact) }
    for instant in instants {
      found += known.disagreements(with: life.truths(at: instant), under: app).map { "late: \($0)" }
    }
    return found
  }

  private static let nothingNew = LifeProperty(
    "a repeated fact of a fully known life changes nothing"
  ) { life, _, _ in
    let facts = try life.facts.map(KnownFact.init)
    var known = KnownFacts(facts)
    let before = known
    var found = facts.filter { known.add($0) }.map { "\($0) was taken for news" }
    if known != before { found.append("learning again changed what is known") }
    return found
  }

  private static let lossesAlone = LifeProperty(
    "without a repair of lost facts no period gets the grace of an earlier one"
  ) { life, app, random in
    let facts = try life.facts.map(KnownFact.init)
    var ends: [String: Set<Date>] = [:]
    var graces: [Date: Set<Date>] = [:]
    for fact in facts {
      switch fact {
      case .transaction(let transaction):
        if let end = transaction.expiresDate { ends[transaction.transactionID, default: []].insert(end) }
      case .renewal(let renewal):
        if let grace = renewal.graceExpiresDate, let end = renewal.renewalDate {
          graces[grace, default: []].insert(end)
        }
      }
    }
    let known = KnownFacts(facts.filter { _ in Int.random(in: 0..<3, using: &random) == 0 })
    return known.purchases.values.compactMap { purchase in
      guard let subscription = purchase.subscription(under: app),
        let grace = subscription.graceExpiresDate
      else { return nil }
      let own = ends[subscription.current.transactionID]?.min() ?? .distantPast
      return graces[grace]?.contains { $0 >= own } == true
        ? nil : "\(subscription.current.transactionID) has the grace of a period before it"
    }
  }

  /// A client posts its purchase before the notification arrives, so the known renewal info belongs to the period
  /// before.
  private static let transactionAlone = LifeProperty(
    "a new transaction without its renewal info gives the store's truth"
  ) { life, app, _ in
    var known = KnownFacts()
    var before = Date.distantPast
    for event in life.events {
      // Signatures of one event are milliseconds apart, so an earlier renewal info can seem to be the later one.
      if event.at > before + 1 {
        for notification in event.notifications {
          guard let transaction = notification.transaction, transaction.inAppOwnershipType == .purchased,
            !known.knows(transaction.transactionId, of: transaction.originalTransactionId)
          else { continue }
          var alone = known
          alone.add(.transaction(try TransactionFact(transaction)))
          let found = alone.disagreements(
            with: event.truths.filter { $0.transactionID == transaction.transactionId }, under: app)
          if !found.isEmpty { return ["after \(event.what)"] + found }
        }
      }
      before = event.at
      for fact in event.notifications.flatMap(\.facts) { known.add(try KnownFact(fact)) }
    }
    return []
  }
}

extension Array {
  fileprivate func partitioned(by isKept: (Element) -> Bool) -> (kept: [Element], lost: [Element]) {
    var parts: (kept: [Element], lost: [Element]) = ([], [])
    for element in self {
      if isKept(element) { parts.kept.append(element) } else { parts.lost.append(element) }
    }
    return parts
  }
}
