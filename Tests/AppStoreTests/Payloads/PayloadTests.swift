import Foundation
import Testing

@testable import AppStore

/// Payload types against JSON as Apple writes it: each with every field that Apple documents.
struct PayloadTests {
  private func json(_ value: some Encodable) throws -> NSDictionary {
    try #require(JSONSerialization.jsonObject(with: JSONEncoder().encode(value)) as? NSDictionary)
  }

  /// Reads a text, writes it again, and compares: a field that the type does not know, or reads wrongly, would
  /// be missing or different.
  private func comesBack<Payload: Codable & Hashable>(_ text: String, as _: Payload.Type) throws -> Payload {
    let payload = try JSONDecoder().decode(Payload.self, from: Data(text.utf8))
    let original = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary
    #expect(try json(payload) == original)
    #expect(try JSONDecoder().decode(Payload.self, from: JSONEncoder().encode(payload)) == payload)
    return payload
  }

  @Test func `a transaction with every field comes back`() throws {
    let transaction = try comesBack(Texts.transaction, as: TransactionInfo.self)
    #expect(transaction.expiresDate == Date(timeIntervalSince1970: 1_698_149_999.999))
    #expect(transaction.type == .autoRenewableSubscription)
    #expect(transaction.offerType == .winBackOffer)
    #expect(transaction.revocationType == .refundProrated)
    #expect(transaction.billingPlanType == .monthly)
    #expect(transaction.commitmentInfo?.totalBillingPeriods == 12)
    #expect(transaction.advancedCommerceInfo?.items?.first?.refunds?.first?.refundType == .prorated)
    #expect(transaction.customerToken == UUID(uuidString: "7E3FB20B-4CDB-47CC-936D-99D65F608138"))
  }

  @Test func `a renewal info with every field comes back`() throws {
    let renewal = try comesBack(Texts.renewalInfo, as: RenewalInfo.self)
    #expect(renewal.expirationIntent == .billingError)
    #expect(renewal.gracePeriodExpiresDate == Date(timeIntervalSince1970: 1_698_149_000))
    #expect(renewal.commitmentInfo?.commitmentAutoRenewStatus == .on)
    #expect(renewal.advancedCommerceInfo?.items?.first?.priceIncreaseInfo?.status == .pending)
  }

  @Test func `an app transaction with every field comes back`() throws {
    let app = try comesBack(Texts.appTransaction, as: AppTransaction.self)
    #expect(app.environment == .sandbox)
    #expect(app.originalPlatform == .visionOS)
    #expect(app.signedAt == Date(timeIntervalSince1970: 1_698_148_900))
  }

  @Test(arguments: Texts.notifications)
  func `a notification of each kind with every field comes back`(text: String) throws {
    let notification = try comesBack(text, as: NotificationPayload.self)
    #expect(notification.bundleId == "com.example")
    #expect(notification.appAppleId == 41_234)
    #expect(notification.environment == .sandbox)
  }

  @Test func `a question about retention messages comes back`() throws {
    _ = try comesBack(Texts.realtimeRequest, as: RealtimeRequest.self)
  }

  @Test func `a value that nobody has heard of is kept`() throws {
    let text = Texts.transaction.replacing("REFUND_PRORATED", with: "REFUND_BY_PIGEON")
      .replacing(#""offerType":4"#, with: #""offerType":99"#)
    let transaction = try comesBack(text, as: TransactionInfo.self)
    #expect(transaction.revocationType == RevocationType(rawValue: "REFUND_BY_PIGEON"))
    #expect(transaction.offerType == OfferType(rawValue: 99))
  }

  @Test func `only what gives identity is required`() throws {
    let required: [(any SignedPayload.Type, String, [String])] = [
      (
        TransactionInfo.self, Texts.transaction,
        [
          "transactionId", "originalTransactionId", "bundleId", "productId", "purchaseDate", "signedDate",
          "environment",
        ]
      ),
      (RenewalInfo.self, Texts.renewalInfo, ["originalTransactionId", "signedDate", "environment"]),
      (AppTransaction.self, Texts.appTransaction, ["bundleId", "receiptType", "receiptCreationDate"]),
      (
        NotificationPayload.self, Texts.notifications[0],
        ["notificationType", "notificationUUID", "signedDate"]
      ),
    ]
    for (type, text, names) in required {
      let whole = try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
      let least = whole.filter { names.contains($0.key) }
      #expect(least.count == names.count)
      _ = try type.init(signedJSON: Array(JSONSerialization.data(withJSONObject: least)))
      for name in names {
        let lacking = Array(try JSONSerialization.data(withJSONObject: whole.filter { $0.key != name }))
        let failure = failure { () throws(VerificationFailure) in try type.init(signedJSON: lacking) }
        #expect(failure?.code == .malformedPayload)
        #expect(failure?.field == name)
      }
    }
  }

  @Test func `a known field of another JSON type is malformed, and named, and its value is not told`() throws
  {
    let whole = try #require(
      JSONSerialization.jsonObject(with: Data(Texts.transaction.utf8)) as? [String: Any])
    for name in whole.keys {
      let wrong: Any = whole[name] is String ? 17 : "secret"
      let changed = Array(try JSONSerialization.data(withJSONObject: whole.merging([name: wrong]) { $1 }))
      let failure = failure { () throws(VerificationFailure) in try TransactionInfo(signedJSON: changed) }
      #expect(failure?.code == .malformedPayload)
      #expect(failure?.field == name)
      #expect(failure?.detail.contains("secret") == false)
    }
    let nested = Texts.transaction.replacing(
      #""totalBillingPeriods":12"#, with: #""totalBillingPeriods":"12""#)
    let failure = failure { () throws(VerificationFailure) in
      try TransactionInfo(signedJSON: Array(nested.utf8))
    }
    #expect(failure?.field == "commitmentInfo.totalBillingPeriods")
  }

  @Test func `a token of all zeros is no token`() {
    var transaction = Samples.transaction
    var renewal = Samples.renewalInfo
    #expect(transaction.customerToken == nil)
    let zeros = UUID(uuidString: "00000000-0000-0000-0000-000000000000")
    transaction.appAccountToken = zeros
    renewal.appAccountToken = zeros
    #expect(transaction.customerToken == nil)
    #expect(renewal.customerToken == nil)
    let token = UUID()
    transaction.appAccountToken = token
    renewal.appAccountToken = token
    #expect(transaction.customerToken == token)
    #expect(renewal.customerToken == token)
  }

  @Test func `random transactions come back, with any of their fields missing`() async throws {
    let whole = try #require(
      JSONSerialization.jsonObject(with: Data(Texts.transaction.utf8)) as? [String: Any])
    let required = try json(Samples.transaction).allKeys.compactMap { $0 as? String }
    var random = SeededGenerator(state: 3)
    for _ in 0..<500 {
      // Others need the thread, too.
      await Task.yield()
      let some = whole.mapValues { value -> Any in
        guard let number = value as? Int, number > 1_000_000_000_000 else { return value }
        return Int64.random(in: Date.wireMilliseconds, using: &random)
      }.filter { required.contains($0.key) || Bool.random(using: &random) }
      let payload = try TransactionInfo(signedJSON: Array(JSONSerialization.data(withJSONObject: some)))
      #expect(try json(payload) == some as NSDictionary)
    }
  }
}
