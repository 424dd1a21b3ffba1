import AppStore
import FoundationEssentials
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

  func appTransaction(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let transaction = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.appTransaction(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard let transaction else { throw ServerAPIError.transactionIDNotFound }
    var answer = AppTransactionInfoResponse()
    answer.signedAppTransactionInfo = try sign(transaction)
    return try .json(.ok, answer)
  }

  func history(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let filter = try HistoryFilter(request.query)
    let page = try page(of: id, in: app, after: request.query["revision"], filter)
    var answer = HistoryResponse()
    answer.environment = environment
    answer.bundleId = app.bundleID
    answer.appAppleId = appAppleID(of: app)
    answer.revision = page.revision
    answer.hasMore = page.hasMore
    answer.signedTransactions = try page.records.map { try sign($0.transaction) }
    return try .json(.ok, answer)
  }

  func refundHistory(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "anyTransactionId")
    let page = try page(of: id, in: app, after: request.query["revision"], .refunds)
    var answer = RefundHistoryResponse()
    answer.revision = page.revision
    answer.hasMore = page.hasMore
    answer.signedTransactions = try page.records.map { try sign($0.transaction) }
    return try .json(.ok, answer)
  }

  func lookUpOrder(_ request: Request, of app: StoreApp) throws -> Response {
    let order = OrderID(try request.parameters.require("orderId", as: String.self))
    var answer = OrderLookupResponse()
    answer.status = .invalid
    // A family member has paid nothing and so has no order.
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

  func finish(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "transactionId")
    try checkIsNoAppTransaction(id, of: app)
    guard try signable(id, of: app) != nil else { throw ServerAPIError.transactionIDNotFound }
    return .empty(.ok)
  }

  // MARK: What they share

  /// A transaction of the app as it stands; nil if the app has none of that id.
  func signable(_ id: String, of app: StoreApp) throws -> TransactionInfo? {
    try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.signable(id, of: app.bundleID, at: now)
    }
  }

  /// Refuses the id of an app transaction where one of a transaction belongs.
  func checkIsNoAppTransaction(_ id: String, of app: StoreApp) throws {
    let isTransaction = try signable(id, of: app) != nil
    let isCustomer = try store.withStore(of: environment) { store, _ throws(StoreRefusal) in
      !store.purchases(ofCustomerWith: id, in: app.bundleID).isEmpty
    }
    if isCustomer && !isTransaction { throw ServerAPIError.appTransactionIDNotSupported }
  }

  private func page(
    of id: String, in app: StoreApp, after revision: String?, _ filter: HistoryFilter
  ) throws -> HistoryPage {
    let start = try revision.map { revision in
      guard let position = HistoryPosition(revision) else { throw ServerAPIError.invalidRevision }
      return position
    }
    let history = try store.withStore(of: environment) { store, now throws(StoreRefusal) in
      store.history(ofCustomerWith: id, in: app.bundleID, at: now)
    }
    guard let history else { throw ServerAPIError.transactionIDNotFound }
    return HistoryPage(of: history, after: start, filter, length: Self.pageLength)
  }
}
