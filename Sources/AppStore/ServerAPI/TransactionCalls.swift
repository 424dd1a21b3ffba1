/// A transaction that the store knows, and where.
public struct LocatedTransaction: Hashable, Sendable {
  /// Where it was found.
  public let environment: Environment
  /// A JWS of a `TransactionInfo`, not yet verified.
  public let signedTransactionInfo: String
}

extension AppStoreServerAPI {
  /// One transaction, as it is now (Get Transaction Info).
  public func transactionInfo(
    _ transactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> TransactionInfoResponse {
    try await call(
      ServerCall(.transactionInfo, ["inApps", "v1", "transactions", transactionID.asTransactionID()]),
      in: environment)
  }

  /// One transaction, when it is not known where it took place: production is asked first, then the sandbox,
  /// as Apple advises.
  ///
  /// The sandbox is asked if production does not know the transaction, or answers 401 without JSON, which it
  /// does for an app that was never released. If the sandbox answers 401 as well, the token is at fault.
  ///
  /// - Throws: `transactionNotFound` if the sandbox does not know it either.
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

  /// The purchase of the app that a transaction belongs to (Get App Transaction Info).
  public func appTransactionInfo(
    anyTransactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> AppTransactionInfoResponse {
    try await call(
      ServerCall(
        .appTransactionInfo,
        ["inApps", "v1", "transactions", "appTransactions", anyTransactionID.asTransactionID()]),
      in: environment)
  }

  /// One page of a customer's transactions (Get Transaction History, version 2).
  ///
  /// - Parameter revision: of the page before; nil for the first.
  public func transactionHistory(
    anyTransactionID: String, _ request: TransactionHistoryRequest = .init(), revision: String? = nil,
    in environment: Environment
  ) async throws(AppStoreServerError) -> HistoryResponse {
    try await call(
      ServerCall(
        .transactionHistory, ["inApps", "v2", "history", anyTransactionID.asTransactionID()],
        query: request.query(revision: revision)),
      in: environment)
  }

  /// One page of a customer's refunds (Get Refund History).
  ///
  /// - Parameter revision: of the page before; nil for the first.
  public func refundHistory(
    anyTransactionID: String, revision: String? = nil, in environment: Environment
  ) async throws(AppStoreServerError) -> RefundHistoryResponse {
    try await call(
      ServerCall(
        .refundHistory, ["inApps", "v2", "refund", "lookup", anyTransactionID.asTransactionID()],
        query: revision.map { [("revision", $0)] } ?? []),
      in: environment)
  }

  /// The transactions of an order that a customer has a receipt of (Look Up Order ID).
  public func lookUpOrder(
    _ orderID: String, in environment: Environment
  ) async throws(AppStoreServerError) -> OrderLookupResponse {
    try await call(
      ServerCall(.orderLookup, ["inApps", "v1", "lookup", orderID.asPathSegment("orderID")]), in: environment)
  }

  /// Tells how much was consumed of what the customer wants refunded (Send Consumption Information, version
  /// 2). Only with the customer's consent, within 12 hours.
  public func sendConsumption(
    of transactionID: String, _ request: ConsumptionRequest, in environment: Environment
  ) async throws(AppStoreServerError) {
    try await call(
      ServerCall(
        .consumption, ["inApps", "v2", "transactions", "consumption", transactionID.asTransactionID()],
        json: request),
      in: environment)
  }

  /// Sets the customer's id on a purchase made without (Set App Account Token).
  public func setAppAccountToken(
    originalTransactionID: String, _ request: UpdateAppAccountTokenRequest, in environment: Environment
  ) async throws(AppStoreServerError) {
    let id = try originalTransactionID.asTransactionID("originalTransactionID")
    try await call(
      ServerCall(.appAccountToken, ["inApps", "v1", "transactions", id, "appAccountToken"], json: request),
      in: environment)
  }

  /// Finishes a transaction that no device has finished (Finish Transaction).
  public func finish(
    _ transactionID: String, in environment: Environment
  ) async throws(AppStoreServerError) {
    try await call(
      ServerCall(
        .finishTransaction, ["inApps", "v1", "transactions", transactionID.asTransactionID(), "finish"]),
      in: environment)
  }
}
