import AppStore
import Foundation
import Postgres

/// A row of `renewal_extensions`: an extension of all active subscribers of a product, or of one subscription.
public struct RenewalExtension: Encodable, Sendable, CustomStringConvertible {
  /// The key of the row.
  public let id: UUID
  /// Apple's `requestIdentifier`: the key in lower case.
  let requestIdentifier: String
  /// The app.
  let bundleID: String
  /// The environment of the App Store.
  let environment: String
  /// The subscription; `null` for all active subscribers.
  @Nullable var originalTransactionID: String? = nil
  /// The product.
  let productID: String
  /// The storefronts; `null` for all.
  @Nullable var storefronts: [String]? = nil
  /// By how many days.
  let days: Int
  /// Apple's code of the reason.
  let reasonCode: Int
  /// Whether nothing was asked or written.
  public internal(set) var isDryRun = false
  /// When the App Store took the request; `null`: not yet.
  @Nullable var acceptedAt: Date? = nil
  /// When it ended; `null`: it is in progress.
  @Nullable var completedAt: Date? = nil
  /// The new renewal date of the one subscription.
  @Nullable var renewsAt: Date? = nil
  /// How many active subscriptions receiptd knows that a dry run for all subscribers concerns.
  @Nullable var subscribers: Int64? = nil
  /// How many of these were extended within a day already.
  @Nullable var extendedAlready: Int64? = nil
  /// How many subscriptions were extended.
  @Nullable var succeeded: Int64? = nil
  /// How many could not be extended.
  @Nullable var failed: Int64? = nil
  /// The last refusal or failure.
  @Nullable var error: String? = nil
  /// The number of requests without an end.
  let attempts: Int
  /// When support asked.
  let requestedAt: Date
  /// The expiry of the one subscription at the App Store before the first request was sent; `nil`: none was sent.
  var expiresBefore: Date?
  /// When an owner of the one subscription had been erased before this command.
  var ownerErasedAt: Date?
  /// Until when this process holds the request for one subscription.
  var heldUntil: Date?
  /// The person who asked; `nil` for the author of this command.
  var requestedBy: String?

  private enum CodingKeys: CodingKey {
    case requestIdentifier, bundleID, environment, originalTransactionID, productID, storefronts, days,
      reasonCode,
      isDryRun, subscribers, extendedAlready, acceptedAt, completedAt, renewsAt, succeeded, failed, error
  }

  /// Whether it has ended, also by a refusal.
  public var isComplete: Bool { completedAt != nil }

  init(
    bundleID: String, environment: String, originalTransactionID: String? = nil, productID: String,
    storefronts: [String]? = nil, days: Int, reasonCode: Int, requestedAt: Date
  ) {
    id = UUID()
    requestIdentifier = id.uuidString.lowercased()
    self.bundleID = bundleID
    self.environment = environment
    self.originalTransactionID = originalTransactionID
    self.productID = productID
    self.storefronts = storefronts
    self.days = days
    self.reasonCode = reasonCode
    self.requestedAt = requestedAt
    attempts = 0
  }

  init(_ row: Row) throws {
    id = try row.decode("request_identifier")
    requestIdentifier = id.uuidString.lowercased()
    bundleID = try row.decode("bundle_id")
    environment = try row.decode("environment")
    productID = try row.decode("product_id")
    days = try row.decode("days")
    reasonCode = try row.decode("reason_code")
    attempts = try row.decode("attempts")
    requestedAt = try row.decode("requested_at")
    expiresBefore = try row.decode("expires_before")
    heldUntil = try row.decode("next_attempt_at")
    requestedBy = try row.decode("by")
    originalTransactionID = try row.decode("original_transaction_id")
    storefronts = try row.decode("storefronts")
    acceptedAt = try row.decode("accepted_at")
    completedAt = try row.decode("completed_at")
    renewsAt = try row.decode("effective_at")
    succeeded = try row.decode("succeeded")
    failed = try row.decode("failed")
    error = try row.decode("last_error")
  }

  var storeEnvironment: AppStore.Environment { AppStore.Environment(rawValue: environment) }

  var code: ExtendReasonCode { ExtendReasonCode(rawValue: Int32(reasonCode)) }

  /// Whether another request asks for the same.
  func isSameRequest(as other: RenewalExtension) -> Bool {
    days == other.days && reasonCode == other.reasonCode && storefronts == other.storefronts
  }

  /// One line.
  public var description: String {
    if let originalTransactionID {
      let renews = renewsAt.map { "renews at \($0.rfc3339)" } ?? "no end"
      return isDryRun
        ? "\(originalTransactionID): would be extended by \(days) days and renew about \(renewsAt?.rfc3339 ?? "then")"
        : "\(originalTransactionID): extended by \(days) days, \(renews)"
    }
    let scope = "\(productID) (\(environment), \(storefronts?.joined(separator: ", ") ?? "all storefronts"))"
    if isDryRun {
      let already =
        extendedAlready.map { $0 == 0 ? "" : ", \($0) of them extended within a day already" } ?? ""
      return
        "\(scope): \(subscribers ?? 0) known subscribers would be extended by \(days) days\(already)"
    }
    if completedAt != nil, let succeeded, let failed {
      return
        "\(scope): \(succeeded) extended by \(days) days, \(failed) could not be extended (\(requestIdentifier))"
    }
    if completedAt != nil { return "\(scope): not extended: \(error ?? "") (\(requestIdentifier))" }
    let state = acceptedAt == nil ? "waits for the App Store" : "the App Store works on it, for hours or days"
    return "\(scope): \(state); the server follows it. See --status \(requestIdentifier)"
  }
}
