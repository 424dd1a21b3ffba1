/// A customer's subscriptions, and where they were bought.
public struct LocatedStatuses: Hashable, Sendable {
  /// Where the transaction that was asked with is known.
  public let environment: Environment
  /// The latest transaction of each subscription.
  public let subscriptions: [LastTransactionsItem]
}

extension AppStoreServerAPI {
  /// The state of all of a customer's subscriptions, by group (Get All Subscription Statuses).
  ///
  /// - Parameter statuses: only subscriptions in one of these; all if empty.
  public func subscriptionStatuses(
    anyTransactionID: String, statuses: [SubscriptionStatus] = [], in environment: Environment
  ) async throws(AppStoreServerError) -> StatusResponse {
    try await call(
      ServerCall(
        .subscriptionStatuses, ["inApps", "v1", "subscriptions", anyTransactionID.asTransactionID()],
        query: statuses.map { ("status", $0.description) }),
      in: environment)
  }

  /// The state of all of a customer's subscriptions, when it is not known where they were bought: asks as
  /// ``locate(_:)`` does.
  ///
  /// - Returns: nil if the sandbox does not know the transaction either.
  public func locateSubscriptions(
    anyTransactionID: String
  ) async throws(AppStoreServerError) -> LocatedStatuses? {
    do {
      return try await productionThenSandbox { environment throws(AppStoreServerError) in
        let answer = try await subscriptionStatuses(anyTransactionID: anyTransactionID, in: environment)
        return LocatedStatuses(
          environment: environment,
          subscriptions: (answer.data ?? []).flatMap { $0.lastTransactions ?? [] })
      }
    } catch .transactionNotFound {
      return nil
    }
  }

  /// Extends one subscription's renewal date (Extend a Subscription Renewal Date): at most 90 days, twice a
  /// year, not for family members.
  public func extendRenewalDate(
    originalTransactionID: String, _ request: ExtendRenewalDateRequest, in environment: Environment
  ) async throws(AppStoreServerError) -> ExtendRenewalDateResponse {
    let id = try originalTransactionID.asTransactionID("originalTransactionID")
    return try await call(
      ServerCall(.extendRenewalDate, ["inApps", "v1", "subscriptions", "extend", id], json: request),
      in: environment)
  }

  /// Extends the renewal dates of all active subscribers of a product (Extend Subscription Renewal Dates for
  /// All Active Subscribers).
  public func extendRenewalDates(
    _ request: MassExtendRenewalDateRequest, in environment: Environment
  ) async throws(AppStoreServerError) -> MassExtendRenewalDateResponse {
    try await call(
      ServerCall(.extendRenewalDates, ["inApps", "v1", "subscriptions", "extend", "mass"], json: request),
      in: environment)
  }

  /// How far such an extension has come (Get Status of Subscription Renewal Date Extensions).
  public func extensionStatus(
    productID: String, requestIdentifier: String, in environment: Environment
  ) async throws(AppStoreServerError) -> MassExtendRenewalDateStatusResponse {
    let product = try productID.asPathSegment("productID")
    let request = try requestIdentifier.asPathSegment("requestIdentifier")
    return try await call(
      ServerCall(.extensionStatus, ["inApps", "v1", "subscriptions", "extend", "mass", product, request]),
      in: environment)
  }
}
