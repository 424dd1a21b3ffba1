import Foundation
import HTTPTypes
import JWTKit
import Testing

@testable import AppStore

struct ServerAPITests {
  private static let key = ES256PrivateKey().pemRepresentation

  private func api(
    _ transport: StubTransport, production: AppStoreAddress = .production, sandbox: AppStoreAddress = .sandbox
  ) throws -> AppStoreServerAPI {
    AppStoreServerAPI(
      transport: transport,
      credentials: try AppStoreCredentials(privateKey: Self.key, keyID: "KEY", issuerID: "ISSUER"),
      bundleID: "com.example.app", production: production, sandbox: sandbox,
      clock: HandDrivenClock(jumps: true).storeClock)
  }

  private func error(
    of call: () async throws(AppStoreServerError) -> some Any,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async -> AppStoreServerError? {
    do throws(AppStoreServerError) {
      _ = try await call()
      Issue.record("answered", sourceLocation: sourceLocation)
      return nil
    } catch {
      return error
    }
  }

  // MARK: Requests

  @Test func `each App Store call sends the request that Apple documents`() async throws {
    let transport = StubTransport { _ in .json("{}") }
    let api = try api(transport)
    let token = try #require(UUID(uuidString: "7E3FB20B-4CDB-47CC-936D-99D65F608138"))
    _ = try await api.transactionInfo("1", in: .production)
    _ = try await api.transactionInfo("2", in: .sandbox)
    _ = try await api.subscriptionStatuses(anyTransactionID: "3", in: .production)
    _ = try await api.transactionHistory(anyTransactionID: "4", in: .production)
    _ = try await api.transactionHistory(anyTransactionID: "4", revision: "r+1&a b", in: .production)
    _ = try await api.lookUpOrder("W002182/..%?#", in: .production)
    try await api.sendConsumption(
      of: "6", .init(customerConsented: true, deliveryStatus: .delivered, sampleContentProvided: false),
      in: .production)
    try await api.setAppAccountToken(originalTransactionID: "7", .init(appAccountToken: token), in: .sandbox)
    _ = try await api.extendRenewalDate(
      originalTransactionID: "9",
      .init(extendByDays: 45, extendReasonCode: .customerSatisfaction, requestIdentifier: "id"),
      in: .production)
    _ = try await api.extendRenewalDates(
      .init(productId: "p", extendByDays: 45, extendReasonCode: .other, requestIdentifier: "id"),
      in: .production)
    _ = try await api.extensionStatus(productID: "p", requestIdentifier: "id", in: .production)
    _ = try await api.notificationHistory(
      .init(startDate: Date(timeIntervalSince1970: 1), endDate: Date(timeIntervalSince1970: 2)),
      paginationToken: "t", in: .production)

    let production = "https://api.storekit.apple.com/inApps"
    let sandbox = "https://api.storekit-sandbox.apple.com/inApps"
    #expect(
      transport.sent.map { "\($0.request.method) \($0.url)" } == [
        "GET \(production)/v1/transactions/1",
        "GET \(sandbox)/v1/transactions/2",
        "GET \(production)/v1/subscriptions/3",
        "GET \(production)/v2/history/4?sort=DESCENDING",
        "GET \(production)/v2/history/4?revision=r%2B1%26a%20b&sort=DESCENDING",
        "GET \(production)/v1/lookup/W002182%2F..%25%3F%23",
        "PUT \(production)/v2/transactions/consumption/6",
        "PUT \(sandbox)/v1/transactions/7/appAccountToken",
        "PUT \(production)/v1/subscriptions/extend/9",
        "POST \(production)/v1/subscriptions/extend/mass",
        "GET \(production)/v1/subscriptions/extend/mass/p/id",
        "POST \(production)/v1/notifications/history?paginationToken=t",
      ])
    let bodies = try transport.sent.compactMap(\.body).map {
      try JSONSerialization.jsonObject(with: Data($0)) as? NSDictionary
    }
    #expect(
      bodies == [
        ["customerConsented": true, "deliveryStatus": "DELIVERED", "sampleContentProvided": false],
        ["appAccountToken": "7E3FB20B-4CDB-47CC-936D-99D65F608138"],
        ["extendByDays": 45, "extendReasonCode": 1, "requestIdentifier": "id"],
        ["extendByDays": 45, "extendReasonCode": 2, "requestIdentifier": "id", "productId": "p"],
        ["startDate": 1000, "endDate": 2000],
      ])
    for sent in transport.sent {
      #expect((sent.body == nil) == (sent.request.headerFields[.contentType] == nil))
      #expect(sent.request.headerFields[.accept] == "application/json")
    }
  }

  @Test(arguments: ["", "a", "1a", "+1", "-1", " 1", "1 ", "1/2", "1?x", "..", "１", "123456789012345678901"])
  func `a transaction id that is not 1 to 20 digits is not sent`(id: String) async throws {
    let transport = StubTransport { _ in .json("{}") }
    let api = try api(transport)
    let error = await error { () async throws(AppStoreServerError) in try await api.locate(id) }
    guard case .invalidArgument("transactionID") = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(transport.sent.isEmpty)
  }

  @Test func `an environment without a server gets no request`() async throws {
    let transport = StubTransport { _ in .json("{}") }
    let api = try api(transport)
    let error = await error { () async throws(AppStoreServerError) in
      try await api.transactionInfo("1", in: .xcode)
    }
    guard case .invalidArgument("environment") = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(transport.sent.isEmpty)
  }

  @Test func `an App Store address may have a port and a path, and an invalid address is refused`()
    async throws
  {
    let transport = StubTransport { _ in .json("{}") }
    let address = try #require(AppStoreAddress("http://127.0.0.1:4000/store/"))
    _ = try await api(transport, production: address).transactionInfo("1", in: .production)
    #expect(transport.sent.first?.url == "http://127.0.0.1:4000/store/inApps/v1/transactions/1")
    #expect(AppStoreAddress("https://api.storekit.apple.com") == .production)
    #expect(AppStoreAddress("http://[::1]:80/")?.authority == "[::1]:80")
    for bad in [
      "", "api.storekit.apple.com", "ftp://host", "https://", "https://user@host", "https://host?x=1",
      "https://host#x",
    ] {
      #expect(AppStoreAddress(bad) == nil, "\(bad)")
    }
  }

  // MARK: Responses

  @Test func `a response with subscription statuses is decoded`() async throws {
    let transport = StubTransport { _ in
      .json(
        """
        {"environment":"Production","bundleId":"com.example","appAppleId":5454545,"new":1,"data":[{\
        "subscriptionGroupIdentifier":"sub_group_one","lastTransactions":[{"status":4,\
        "originalTransactionId":"3749183","signedTransactionInfo":"a","signedRenewalInfo":"b"},{"status":77}]}]}
        """)
    }
    let statuses = try await api(transport).subscriptionStatuses(anyTransactionID: "1", in: .production)
    #expect(statuses.environment == .production)
    #expect(statuses.appAppleId == 5_454_545)
    let items = statuses.data?.first?.lastTransactions
    #expect(items?.first?.status == .billingGracePeriod)
    #expect(items?.first?.signedRenewalInfo == "b")
    #expect(items?.last?.status == SubscriptionStatus(rawValue: 77))
  }

  @Test func `a page of the notification history is decoded`() async throws {
    let transport = StubTransport { _ in
      .json(
        """
        {"paginationToken":"57715481","hasMore":true,"notificationHistory":[{"sendAttempts":[\
        {"attemptDate":1698148900000,"sendAttemptResult":"NO_RESPONSE"},\
        {"attemptDate":1698148950000,"sendAttemptResult":"SUCCESS"}],"signedPayload":"signed_payload_one"}]}
        """)
    }
    let page = try await api(transport).notificationHistory(
      .init(startDate: .init(timeIntervalSince1970: 0), endDate: .init(timeIntervalSince1970: 1)),
      in: .production)
    #expect(page.hasMore == true)
    let item = try #require(page.notificationHistory?.first)
    #expect(item.signedPayload == "signed_payload_one")
    #expect(item.sendAttempts?.map(\.sendAttemptResult) == [.noResponse, .success])
    #expect(item.sendAttempts?.first?.attemptDate == Date(timeIntervalSince1970: 1_698_148_900))
  }

  @Test(arguments: ["", "text", "[]", #"{"signedTransactionInfo":7}"#])
  func `a response with status 200 and without the API's JSON is undecodable`(body: String) async throws {
    let transport = StubTransport { _ in .json(body) }
    let api = try api(transport)
    let error = await error { () async throws(AppStoreServerError) in
      try await api.transactionInfo("1", in: .production)
    }
    guard case .undecodableAnswer(status: 200, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  // MARK: Locating a transaction

  @Test func `a transaction of production is found with one request`() async throws {
    let transport = StubTransport { _ in .json(#"{"signedTransactionInfo":"jws"}"#) }
    let found = try await api(transport).locate("1")
    #expect(found == LocatedTransaction(environment: .production, signedTransactionInfo: "jws"))
    #expect(transport.sent.count == 1)
  }

  @Test(arguments: [StubTransport.Answer.error(4_040_010), .unauthenticated])
  func `a transaction that production does not know is looked up in the sandbox`(answer: StubTransport.Answer)
    async throws
  {
    let transport = StubTransport {
      $0.request.authority == "api.storekit.apple.com" ? answer : .json(#"{"signedTransactionInfo":"jws"}"#)
    }
    let found = try await api(transport).locate("1")
    #expect(found == LocatedTransaction(environment: .sandbox, signedTransactionInfo: "jws"))
    #expect(transport.sent.count == 2)
  }

  @Test func `a transaction that neither environment knows is not found`() async throws {
    let api = try api(StubTransport { _ in .error(4_040_010) })
    let error = await error { () async throws(AppStoreServerError) in try await api.locate("1") }
    guard case .transactionNotFound = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(error?.isRetryable == false)
  }

  @Test
  func
    `a transaction about which production answers 401 is not unknown because the sandbox does not know it`()
    async throws
  {
    let transport = StubTransport {
      $0.request.authority == "api.storekit.apple.com" ? .unauthenticated : .error(4_040_010)
    }
    let api = try api(transport)
    let errors = [
      await error { () async throws(AppStoreServerError) in try await api.locate("1") },
      await error { () async throws(AppStoreServerError) in
        try await api.locateSubscriptions(anyTransactionID: "1")
      },
    ]
    for error in errors {
      guard case .answeredBySandboxAlone = error else {
        Issue.record("\(String(describing: error))")
        continue
      }
      #expect(error?.isRetryable == true)
    }
  }

  @Test func `a bearer token that neither environment accepts is an authorization error`() async throws {
    let transport = StubTransport { _ in .unauthenticated }
    let api = try api(transport)
    let error = await error { () async throws(AppStoreServerError) in try await api.locate("1") }
    guard case .unauthorizedWithoutJSON = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(transport.sent.count == 2)
  }

  @Test(arguments: [4_000_006, 4_010_000, 4_040_002, 4_040_005, 4_290_000, 5_000_000, 5_000_001] as [Int64])
  func `other errors of production than not found do not lead to the sandbox`(code: Int64) async throws {
    let transport = StubTransport { _ in .error(code) }
    let api = try api(transport)
    let error = await error { () async throws(AppStoreServerError) in try await api.locate("1") }
    #expect(error?.code?.rawValue == code)
    #expect(transport.sent.allSatisfy { $0.request.authority == "api.storekit.apple.com" })
  }

  @Test func `a production request without a response does not lead to the sandbox`() async throws {
    struct Cut: Error {}
    let transport = StubTransport { _ in throw Cut() }
    let api = try api(transport)
    let error = await error { () async throws(AppStoreServerError) in try await api.locate("1") }
    guard case .transport(let cause) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(cause is Cut)
    #expect(error?.isRetryable == true)
    #expect(transport.sent.count == 1)
  }
}
