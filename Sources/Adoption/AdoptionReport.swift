import Customers
import Foundation
import Subscriptions

/// The result of `receiptd adopt` for one app, with the decisions of earlier runs.
package struct AdoptionReport: Encodable, Sendable, CustomStringConvertible {
  /// A claim that a person may have to look at.
  struct Listed: Encodable, Sendable, Hashable {
    var customer: String
    /// `nil` if the claim names none.
    var originalTransactionID: String?
    var outcome: String
    var detail: String?
  }

  let bundleID: String
  let isDryRun: Bool
  /// All claims.
  let claims: Int
  /// The number of claims of each outcome.
  let outcomes: [String: Int]
  /// The claims that give nothing, or that wait.
  let listed: [Listed]
  /// The customers of awards that this run gave, or would give, to rows that a client made premium after the first
  /// adoption.
  let awardsToClientWrites: [String]
  /// The customers whose client made the row premium after the first adoption, without a transaction id, and who get no
  /// award.
  let awardsWithheld: [String]
  /// The customers whose client writes premium without a transaction id, although receiptd has decided that they have
  /// no access: they get no award.
  let awardsDenied: [String]
  /// The customers whose row was skipped, because receiptd has yet to write a status to it.
  let waitingForStatus: [String]
  /// Expired, refunded and unknown purchases about which the App Store did not answer again: they have their former
  /// verdict.
  let notAskedAgain: Int
  /// Profiles with a false claim that now have the true status.
  var falseClaimsCleared = 0
  /// Profiles that keep a false claim.
  var falseClaimsLeft = 0
  /// Rows with other values than the server's, such as those of an old build, that now have the true status.
  var rowsCorrected = 0
  /// Rows of a file that are not about this app's customers or the App Store, by the reason.
  var skipped: [String: Int] = [:]

  /// The most claims of an outcome that the text lists; JSON has all.
  private static let maximumListed = 20

  init(_ bundleID: String, _ book: ClaimBook, isDryRun: Bool) {
    self.bundleID = bundleID
    self.isDryRun = isDryRun
    claims = book.claims.count
    outcomes = Dictionary(grouping: book.decisions.values, by: \.verdict.rawValue).mapValues(\.count)
    awardsToClientWrites = book.claims.values.filter {
      $0.isOfClient && book.decisions[$0.key]?.verdict == .awarded
    }.map(\.key.customer.id).sorted()
    awardsWithheld = book.withheld.map { Customer.user($0).id }.sorted()
    awardsDenied = book.denied.map { Customer.user($0).id }.sorted()
    waitingForStatus = book.waiting.map { Customer.user($0).id }.sorted()
    notAskedAgain = book.notAskedAgain
    listed = book.decisions.compactMap { key, decided in
      guard decided.verdict.needsAttention else { return nil }
      return Listed(
        customer: key.customer.id, originalTransactionID: key.transactionID.isEmpty ? nil : key.transactionID,
        outcome: decided.verdict.rawValue, detail: decided.detail)
    }.sorted {
      ($0.outcome, $0.originalTransactionID ?? "", $0.customer)
        < ($1.outcome, $1.originalTransactionID ?? "", $1.customer)
    }
  }

  /// Whether claims wait for another run.
  package var isComplete: Bool { count(.failed) == 0 && waitingForStatus.isEmpty }

  /// The number of claims with this verdict.
  func count(_ verdict: ClaimVerdict) -> Int { outcomes[verdict.rawValue] ?? 0 }

  /// A line for each outcome, and the claims that a person may have to look at.
  package var description: String {
    var lines = ["\(bundleID): \(claims) claims" + (isDryRun ? "; dry run, nothing was written" : "")]
    for verdict in ClaimVerdict.allCases where count(verdict) > 0 || verdict == .bound {
      lines.append("  \(count(verdict)) \(isDryRun ? verdict.forecast : verdict.result)")
      let those = listed.filter { $0.outcome == verdict.rawValue }
      lines += those.prefix(Self.maximumListed).map { claim in
        "      \(claim.customer)" + (claim.originalTransactionID.map { " claims \($0)" } ?? "")
          + (claim.detail.map { ": \($0)" } ?? "")
      }
      if those.count > Self.maximumListed {
        lines.append("      and \(those.count - Self.maximumListed) more; --json lists all")
      }
    }
    for (reason, count) in skipped.sorted(by: { $0.key < $1.key }) {
      lines.append("  \(count) rows of the file skipped: \(reason)")
    }
    lines += Self.lines(
      awardsToClientWrites,
      isDryRun
        ? "would get an award with an end, because a client made the row premium after the first adoption"
        : "got an award with an end, because a client made the row premium after the first adoption; receiptd revoke-grant "
          + "ends one now"
    )
    lines += Self.lines(
      awardsWithheld,
      "premium since the first adoption by a client's word, or without a noted write of your backend: no award. For what a client wrote to "
        + "user_preferences --award-client-writes DAYS gives one with an end"
    )
    lines += Self.lines(
      awardsDenied, "premium by a client's word only, against receiptd's decision: no award"
    )
    lines += Self.lines(
      waitingForStatus, "with a row to which receiptd has yet to write a status: skipped; run adopt again"
    )
    if notAskedAgain > 0 {
      lines.append("  \(notAskedAgain) verdicts are of an earlier run, because the App Store did not answer")
    }
    if falseClaimsCleared > 0 { lines.append("  \(falseClaimsCleared) profiles lost a false claim") }
    if rowsCorrected > 0 {
      lines.append("  \(rowsCorrected) rows had other values and now have the true status")
    }
    if falseClaimsLeft > 0 {
      lines.append(
        "  \(falseClaimsLeft) profiles keep a false claim"
          + (isDryRun ? "" : "; run adopt again when clientWrites is observe or refuse"))
    }
    return lines.joined(separator: "\n")
  }
}

extension AdoptionReport {
  /// A line with the number of customers, and their ids.
  private static func lines(_ customers: [String], _ text: String) -> [String] {
    guard !customers.isEmpty else { return [] }
    var lines = ["  \(customers.count) \(text)"]
    lines += customers.prefix(maximumListed).map { "      \($0)" }
    if customers.count > maximumListed {
      lines.append("      and \(customers.count - maximumListed) more; --json lists all")
    }
    return lines
  }
}

extension ClaimVerdict {
  /// Whether the report lists the claims with this verdict.
  fileprivate var needsAttention: Bool {
    switch self {
    case .bound, .expired, .refunded, .awarded, .awardEnded: false
    case .notCounted, .anotherCustomer, .claimedTwice, .unknown, .unknownCustomer, .failed: true
    }
  }

  fileprivate var result: String {
    switch self {
    case .bound: "verified and bound"
    case .expired: "expired; bound, without access"
    case .refunded: "refunded or revoked; bound, without access"
    case .notCounted: "verified, but of the sandbox or of a product that is not configured; without access"
    case .anotherCustomer: "of another customer; they give nothing"
    case .claimedTwice: "claimed by several customers, proved by none: decide with receiptd transfer"
    case .unknown: "unknown to the App Store; they give nothing"
    case .awarded: "paid without a transaction id; each has an award"
    case .awardEnded: "paid without a transaction id; the award has ended or was revoked"
    case .unknownCustomer: "of an unknown customer: the app has no such user; they give nothing"
    case .failed: "without an answer; run adopt again"
    }
  }

  fileprivate var forecast: String {
    switch self {
    case .bound: "would be verified and bound"
    case .awarded: "paid without a transaction id; each would get an award"
    default: result
    }
  }
}
