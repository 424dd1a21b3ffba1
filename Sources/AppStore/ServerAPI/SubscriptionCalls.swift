/// A customer's subscriptions and their environment.
public struct LocatedStatuses: Hashable, Sendable {
  /// The environment that knows the transaction.
  public let environment: Environment
  /// The latest transaction of each subscription.
  public let subscriptions: [LastTransactionsItem]
}

extension AppStoreServerAPI {
  /// Reads the states of all subscriptions of a customer, by group (Get All Subscription Statuses).
  public func subscriptionStatuses(
    anyTransactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> StatusResponse {
    try await call(
      ServerCall(
        .subscriptionStatuses, ["inApps", "v1", "subscriptions", anyTransactionID.asTransactionID()]),
      in: environment)
  }

  /// Reads the states of all subscriptions of a customer whose environment is unknown: tries production, then the
  /// sandbox, like ``locate(_:)``.
  ///
  /// - Returns: nil if neither environment knows the transaction.
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

  /// Extends the renewal date of one subscription (Extend a Subscription Renewal Date): by at most 90 days, twice a
  /// year, and not for family members.
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

  /// Reads the progress of a mass extension (Get Status of Subscription Renewal Date Extensions).
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
