import AppStore
import Foundation
import HTTP
import HTTPTypes
import Identifiers

extension ServerAPIRoutes {
  func transactionInfo(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "transactionId")
    guard let transaction = try signable(id, of: app) else { throw ServerAPIError.transactionIDNotFound }
    var answer = TransactionInfoResponse()
    answer.signedTransactionInfo = try sign(transaction)
    return try .json(.ok, answer)
  }

  func history(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let filter = try HistoryFilter(request.query)
    let start = try request.query["revision"].map { revision in
      guard let position = HistoryPosition(revision) else { throw ServerAPIError.invalidRevision }
      return position
    }
    let history = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.history(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard let history else { throw ServerAPIError.transactionIDNotFound }
    let page = HistoryPage(of: history, after: start, filter, length: Self.pageLength)
    var answer = HistoryResponse()
    answer.environment = environment
    answer.bundleId = app.bundleID
    answer.appAppleId = appAppleID(of: app)
    answer.revision = page.revision
    answer.hasMore = page.hasMore
    answer.signedTransactions = try page.records.map { try sign($0.transaction) }
    return try .json(.ok, answer)
  }

  func lookUpOrder(_ request: Request, of app: StoreApp) throws -> Response {
    let order = OrderID(try request.parameters.require("orderId", as: String.self))
    var answer = OrderLookupResponse()
    answer.status = .invalid
    // A family member has no order.
    if let order, let transaction = try signable(order.transactionID, of: app),
      transaction.inAppOwnershipType != .familyShared
    {
      answer.status = .valid
      answer.signedTransactions = [try sign(transaction)]
    }
    return try .json(.ok, answer)
  }

  func setAccountToken(_ request: Request, of app: StoreApp) throws -> Response {
    struct Body: Decodable { let appAccountToken: Member<String>? }
    let id = try transactionID(request, "originalTransactionId")
    let body: Body = try body(request)
    guard let token = body.appAccountToken?.value.flatMap(UUID.init(rfc9562:)) else {
      throw ServerAPIError.invalidAppAccountTokenUUID
    }
    try checkIsNoAppTransaction(id, of: app)
    let result = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.setAppAccountToken(token, of: id, in: app.bundleID, at: now)
    }
    do {
      try result.get()
    } catch {
      switch error {
      case .notFound: throw ServerAPIError.originalTransactionIDNotFound
      case .familyShared: throw ServerAPIError.familyTransactionNotSupported
      case .notOriginal: throw ServerAPIError.notAnOriginalTransactionID
      }
    }
    return .empty(.ok)
  }

  // MARK: Shared

  /// The current state of a transaction of the app; nil for an unknown id.
  func signable(_ id: String, of app: StoreApp) throws -> TransactionInfo? {
    try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.signable(id, of: app.bundleID, at: now)
    }
  }

  /// Refuses an app transaction id in place of a transaction id.
  func checkIsNoAppTransaction(_ id: String, of app: StoreApp) throws {
    let isTransaction = try signable(id, of: app) != nil
    let isCustomer = try store.withStore(of: environment) { store, _ throws(StoreRefusal) in
      !store.purchases(ofCustomerWith: id, in: app.bundleID).isEmpty
    }
    if isCustomer && !isTransaction { throw ServerAPIError.appTransactionIDNotSupported }
  }
}
