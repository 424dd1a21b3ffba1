/// A transaction and its environment.
public struct LocatedTransaction: Hashable, Sendable {
  /// The environment that knows the transaction.
  public let environment: Environment
  /// A JWS of a `TransactionInfo`, not yet verified.
  public let signedTransactionInfo: String
}

extension AppStoreServerAPI {
  /// Reads the current state of one transaction (Get Transaction Info).
  public func transactionInfo(
    _ transactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> TransactionInfoResponse {
    try await call(
      ServerCall(.transactionInfo, ["inApps", "v1", "transactions", transactionID.asTransactionID()]),
      in: environment)
  }

  /// Reads one transaction whose environment is unknown: tries production, then the sandbox, as Apple advises.
  ///
  /// The sandbox follows if production does not know the transaction, or answers 401 without JSON, as it does for an
  /// app that was never released. If the sandbox answers 401 as well, the token is invalid.
  ///
  /// - Throws: `transactionNotFound` if neither environment knows it.
  public func locate(_ transactionID: String) async throws(AppStoreServerError) -> LocatedTransaction {
    try await productionThenSandbox { environment throws(AppStoreServerError) in
      guard let jws = try await transactionInfo(transactionID, in: environment).signedTransactionInfo else {
        throw .undecodableAnswer(status: 200, detail: "without signedTransactionInfo")
      }
      return LocatedTransaction(environment: environment, signedTransactionInfo: jws)
    }
  }

  func productionThenSandbox<Found>(
    _ ask: (Environment) async throws(AppStoreServerError) -> Found
  ) async throws(AppStoreServerError) -> Found {
    do {
      return try await ask(.production)
    } catch .rejected(let rejection) where rejection.code?.meansUnknown == true {
    } catch .unauthorizedWithoutJSON {
    }
    do {
      return try await ask(.sandbox)
    } catch .rejected(let rejection) where rejection.code?.meansUnknown == true {
      throw .transactionNotFound
    }
  }

  /// Reads one page of a customer's transactions (Get Transaction History, version 2).
  ///
  /// - Parameters:
  ///   - order: by modification date; oldest first by default.
  ///   - revision: the `revision` of the previous page; nil for the first page.
  public func transactionHistory(
    anyTransactionID: String, order: HistoryOrder = .ascending, revision: String? = nil,
    in environment: Environment
  ) async throws(AppStoreServerError) -> HistoryResponse {
    let query = (revision.map { [("revision", $0)] } ?? []) + [("sort", order.rawValue)]
    return try await call(
      ServerCall(
        .transactionHistory, ["inApps", "v2", "history", anyTransactionID.asTransactionID()], query: query),
      in: environment)
  }

  /// Reads the transactions of an order id from a customer's receipt (Look Up Order ID).
  public func lookUpOrder(
    _ orderID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> OrderLookupResponse {
    try await call(
      ServerCall(.orderLookup, ["inApps", "v1", "lookup", orderID.asPathSegment("orderID")]), in: environment)
  }

  /// Sends the consumption of a purchase whose refund the customer requests (Send Consumption Information, version 2):
  /// only with the customer's consent, and within 12 hours.
  public func sendConsumption(
    of transactionID: String, _ request: ConsumptionRequest, in environment: Environment
  ) async throws(AppStoreServerError) {
    try await call(
      ServerCall(
        .consumption, ["inApps", "v2", "transactions", "consumption", transactionID.asTransactionID()],
        json: request),
      in: environment)
  }

  /// Sets the app's customer id on a purchase (Set App Account Token).
  public func setAppAccountToken(
    originalTransactionID: String, _ request: UpdateAppAccountTokenRequest, in environment: Environment
  ) async throws(AppStoreServerError) {
    let id = try originalTransactionID.asTransactionID("originalTransactionID")
    try await call(
      ServerCall(.appAccountToken, ["inApps", "v1", "transactions", id, "appAccountToken"], json: request),
      in: environment)
  }
}
