import Foundation

/// Picks the purchase that counts among the facts.
extension SubscriptionFacts {
  /// The latest purchase.
  ///
  /// The latest by `purchaseDate`, unless another purchase replaced it before it began (`overtaken`). Purchases of the
  /// same instant are an upgrade and the upgraded purchase, which Apple marks.
  ///
  /// A restored purchase without periods has several transactions, and a refund is signed on one of them. So a
  /// revocation ends every purchase before it, until a reversal on one of them ends the revocations up to the one that it reverses. A
  /// purchase after a revocation is a new one: the App Store sells the product again after a refund, under the same
  /// original id or a new one.
  public var current: TransactionFact? {
    guard var current = latest(of: purchases) else { return nil }
    if current.kind.isRestoredWhole {
      let copies = transactions.values
      let reversed = copies.lazy.filter { $0.revocationDate == nil }.compactMap(\.latestRevocation).max()
      let purchaseDate = current.purchaseDate
      let later = copies.lazy.compactMap(\.revocationDate).filter { $0 > purchaseDate }
      current.revocationDate = ([current.revocationDate].compactMap(\.self) + later)
        .filter { $0 > reversed ?? .distantPast }.min()
    }
    return current
  }

  /// The purchases, each with what Apple signed about any copy of its period.
  ///
  /// A period of a subscription may have several transactions: Apple gives it another id when the customer restores it
  /// on a new device (`transactionId`). A refund, an extension, the mark of an upgrade or another account token may be
  /// signed on one of them.
  /// A reversal on one of them ends the revocations of all up to the one that it reverses.
  private var purchases: [TransactionFact] {
    var purchases = Array(transactions.values)
    guard Set(purchases.lazy.map(\.purchaseDate)).count < purchases.count else { return purchases }
    let copies = Dictionary(grouping: purchases.filter { $0.kind == .autoRenewable }, by: Period.init(of:))
    let joined = copies.filter { $0.value.count > 1 }.mapValues { copies in
      let reversed = copies.lazy.filter { $0.revocationDate == nil }.compactMap(\.latestRevocation).max()
      return (
        revocationDate: copies.lazy.compactMap(\.revocationDate).filter { $0 > reversed ?? .distantPast }
          .min(),
        expiresDate: copies.lazy.compactMap(\.expiresDate).max(),
        isUpgraded: copies.contains(where: \.isUpgraded),
        named: TransactionFact.named(among: copies)
      )
    }
    for index in purchases.indices where purchases[index].kind == .autoRenewable {
      guard let period = joined[Period(of: purchases[index])] else { continue }
      purchases[index].revocationDate = period.revocationDate
      purchases[index].expiresDate = period.expiresDate
      purchases[index].isUpgraded = period.isUpgraded
      purchases[index].appAccountToken = period.named?.appAccountToken
      purchases[index].tokenSignedAt = period.named?.tokenSignedAt
    }
    return purchases
  }

  /// The purchases in the order in which they took effect, without those that another one replaced before they began.
  public var standing: [TransactionFact] {
    let overtaken = overtaken
    return purchases.filter { !overtaken.contains($0.transactionID) }
      .sorted { $0.isReplaced(by: $1) }
  }

  /// The valid period that lasts until the start of this one; nil if there is none.
  func paidUntilStart(of current: TransactionFact) -> TransactionFact? {
    latest(
      of: purchases.filter { before in
        guard let expires = before.expiresDate else { return false }
        return before.purchaseDate < current.purchaseDate && expires >= current.purchaseDate
          && before.revocationDate == nil && !before.isUpgraded
      })
  }

  /// The `appAccountToken` that decides: the last signed token of the latest purchase with a token. A later purchase
  /// without a token, for example one made outside the app, does not change the owner. Neither does an earlier purchase
  /// that is signed again. Transactions of a non-consumable or a non-renewing subscription are one purchase if there was
  /// no refund between them.
  public var customerToken: UUID? {
    let purchases = purchases
    guard let latest = latest(of: purchases.filter({ $0.appAccountToken != nil })) else { return nil }
    guard latest.kind.isRestoredWhole else { return latest.appAccountToken }
    let refunded =
      purchases.lazy.compactMap(\.latestRevocation).filter { $0 <= latest.purchaseDate }.max() ?? .distantPast
    return TransactionFact.named(among: purchases.filter { $0.purchaseDate >= refunded })?.appAccountToken
  }

  /// The latest of these purchases that is not overtaken; the latest one if all are.
  private func latest(of purchases: [TransactionFact]) -> TransactionFact? {
    let overtaken = overtaken
    let standing = purchases.lazy.filter { !overtaken.contains($0.transactionID) }
    return standing.max { $0.isReplaced(by: $1) } ?? purchases.max { $0.isReplaced(by: $1) }
  }

  /// The ids of renewals that another purchase replaced before they began.
  ///
  /// The App Store charges a renewal up to a day ahead and dates it at its beginning. An upgrade in between takes
  /// effect at once, so it has the earlier `purchaseDate` although it was bought later. The same happens if the renewal
  /// is refunded and the customer subscribes again.
  ///
  /// Apple marks upgraded purchases, but the mark may be lost. So each of these shows that the renewal was charged
  /// before another purchase, which is active when the renewal begins:
  /// - the mark, unless the other purchase has it too;
  /// - a signature or a revocation of the renewal before the other purchase;
  /// - a period that ends where the renewal begins, and that the other purchase interrupted. In the last minute, when
  ///   clocks may differ, it must be of another product than the period and the renewal, and the renewal signed before
  ///   it, and not again since. A refunded period is not renewed.
  ///
  /// Only purchases with an earlier date overtake, so one pass in the order of dates is sufficient. A purchase may have
  /// any number of transactions within two days (restored copies, the sandbox), so they are not compared with each
  /// other: of those that were bought since an instant, the one that ends last decides.
  private var overtaken: Set<String> {
    guard transactions.count > 1 else { return [] }
    let ordered = purchases.sorted { $0.isReplaced(by: $1) }
    // For each end of a period, the first purchase with that end.
    var endingAt: [Date: TransactionFact] = [:]
    for fact in ordered {
      guard let end = fact.expiresDate, fact.revocationDate.map({ $0 > end - Self.chargedAhead }) ?? true
      else {
        continue
      }
      if endingAt[end] == nil { endingAt[end] = fact }
    }
    var overtaken: Set<String> = []
    // Those before the renewal, those without the mark, and those that are surely before it.
    var (all, unmarked, surelyBefore) = (LastEnds(), LastEnds(), LastEnds())
    var byProduct: [String: LastEnds] = [:]
    var (next, nextSure) = (0, 0)
    for renewal in ordered {
      let begins = renewal.purchaseDate
      let surelyBegins = begins - Self.clockDifference
      while ordered[next].purchaseDate < begins {
        if !overtaken.contains(ordered[next].transactionID) {
          all.add(ordered[next])
          byProduct[ordered[next].productID, default: LastEnds()].add(ordered[next])
          if !ordered[next].isUpgraded { unmarked.add(ordered[next]) }
        }
        next += 1
      }
      while ordered[nextSure].purchaseDate < surelyBegins {
        if !overtaken.contains(ordered[nextSure].transactionID) { surelyBefore.add(ordered[nextSure]) }
        nextSure += 1
      }
      let earliest = begins - Self.chargedAhead
      let knownFrom = min(renewal.signedAt, renewal.revocationDate ?? .distantFuture)
      let isMarked = renewal.isUpgraded && unmarked.last(boughtFrom: earliest) > begins
      let isKnownBefore = knownFrom < surelyBegins && all.last(boughtFrom: max(earliest, knownFrom)) > begins
      let isInterrupted =
        endingAt[begins].map { period in
          surelyBefore.last(boughtFrom: earliest, after: period.purchaseDate) > begins
            || period.productID == renewal.productID
              && byProduct.contains { product, ends in
                product != period.productID
                  && ends.last(boughtFrom: max(surelyBegins, knownFrom), after: period.purchaseDate) > begins
              }
        } ?? false
      if isMarked || isKnownBefore || isInterrupted { overtaken.insert(renewal.transactionID) }
    }
    return overtaken
  }
}

/// What the copies of a period have in common, among the transactions of one purchase. An extension moves the end of the
/// period.
private struct Period: Hashable {
  var productID: String
  var purchaseDate: Date
  var ownership: String

  init(of fact: TransactionFact) {
    productID = fact.productID
    purchaseDate = fact.purchaseDate
    ownership = fact.ownership
  }
}

/// The latest end of the purchases that were bought since an instant. They are added in the order of their dates.
private struct LastEnds {
  /// Those that no later purchase outlasts: the later they were bought, the earlier they end.
  private var purchases: [(bought: Date, end: Date)] = []

  mutating func add(_ fact: TransactionFact) {
    guard let end = fact.expiresDate else { return }
    while let last = purchases.last, last.end <= end { purchases.removeLast() }
    purchases.append((fact.purchaseDate, end))
  }

  /// - Parameter excluded: only purchases that were bought after this instant count too.
  /// - Returns: `.distantPast` for none.
  func last(boughtFrom first: Date, after excluded: Date = .distantPast) -> Date {
    var (low, high) = (0, purchases.count)
    while low < high {
      let middle = (low + high) / 2
      let bought = purchases[middle].bought
      if bought >= first, bought > excluded { high = middle } else { low = middle + 1 }
    }
    return low < purchases.count ? purchases[low].end : .distantPast
  }
}

extension TransactionFact {
  /// Whether both are about the same period of a subscription: the same transaction, or copies of it.
  package func isOfSamePeriod(as other: TransactionFact) -> Bool {
    kind == .autoRenewable && other.kind == .autoRenewable && Period(of: self) == Period(of: other)
  }

  /// The fact whose account token counts for all of these transactions of one purchase; `nil` if none has a token.
  ///
  /// The App Store changes the token of a purchase, and signs the new one from then on. So a token that replaced another
  /// one on the same transaction counts, the one that was signed last. Without a change the latest transaction decides: two
  /// of them may have different tokens for good, and signing one again is no news.
  fileprivate static func named(among copies: [TransactionFact]) -> TransactionFact? {
    let named = copies.filter { $0.appAccountToken != nil }
    return named.filter(\.isTokenChanged).max { $1.hasLaterToken(than: $0) }
      ?? named.max { $0.isEarlier(than: $1) }
  }

  fileprivate func isReplaced(by other: TransactionFact) -> Bool {
    if purchaseDate == other.purchaseDate, isUpgraded != other.isUpgraded { return isUpgraded }
    return isEarlier(than: other)
  }

  private func isEarlier(than other: TransactionFact) -> Bool {
    if purchaseDate != other.purchaseDate { return purchaseDate < other.purchaseDate }
    // Apple's identifiers are ascending: of two with the same number of digits, the larger is the later.
    if transactionID.utf8.count != other.transactionID.utf8.count {
      return transactionID.utf8.count < other.transactionID.utf8.count
    }
    return transactionID < other.transactionID
  }
}
