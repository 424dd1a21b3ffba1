import Foundation
import Testing

@testable import AppStore

/// The payload types on JSON with every field that Apple documents.
struct PayloadTests {
  private func json(_ value: some Encodable) throws -> NSDictionary {
    try #require(JSONSerialization.jsonObject(with: JSONEncoder().encode(value)) as? NSDictionary)
  }

  /// Reads a text, writes it and compares. A field that the type does not have, or reads wrongly, is missing or
  /// different.
  private func roundTrip<Payload: Codable & Hashable>(_ text: String, as _: Payload.Type) throws -> Payload {
    let payload = try JSONDecoder().decode(Payload.self, from: Data(text.utf8))
    let original = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary
    #expect(try json(payload) == original)
    #expect(try JSONDecoder().decode(Payload.self, from: JSONEncoder().encode(payload)) == payload)
    return payload
  }

  @Test func `a transaction with every field survives a round trip`() throws {
    let transaction = try roundTrip(Texts.transaction, as: TransactionInfo.self)
    #expect(transaction.expiresDate == Date(timeIntervalSince1970: 1_698_149_999.999))
    #expect(transaction.type == .autoRenewableSubscription)
    #expect(transaction.offerType == .winBackOffer)
    #expect(transaction.revocationType == .refundProrated)
    #expect(transaction.billingPlanType == .monthly)
    #expect(transaction.commitmentInfo?.totalBillingPeriods == 12)
    #expect(transaction.customerToken == UUID(uuidString: "7E3FB20B-4CDB-47CC-936D-99D65F608138"))
  }

  @Test func `a renewal info with every field survives a round trip`() throws {
    let renewal = try roundTrip(Texts.renewalInfo, as: RenewalInfo.self)
    #expect(renewal.expirationIntent == .billingError)
    #expect(renewal.gracePeriodExpiresDate == Date(timeIntervalSince1970: 1_698_149_000))
    #expect(renewal.commitmentInfo?.commitmentAutoRenewStatus == .on)
  }

  @Test func `an app transaction with every field survives a round trip`() throws {
    let app = try roundTrip(Texts.appTransaction, as: AppTransaction.self)
    #expect(app.environment == .sandbox)
    #expect(app.originalPlatform == .visionOS)
    #expect(app.signedAt == Date(timeIntervalSince1970: 1_698_148_900))
  }

  @Test(arguments: Texts.notifications)
  func `a notification of each kind with every field survives a round trip`(text: String) throws {
    let notification = try roundTrip(text, as: NotificationPayload.self)
    #expect(notification.bundleId == "com.example")
    #expect(notification.appAppleId == 41_234)
    #expect(notification.environment == .sandbox)
  }

  @Test func `a payload ignores fields of Advanced Commerce, and the rebuilt JWS has them`() throws {
    let authority = TestAuthority.shared
    func verifies<Payload>(
      _ text: String, by verify: (String) throws -> Signed<Payload>
    ) throws {
      // The texts' dates lie before the test authority's certificates.
      let plain = text.replacing(#""signedDate":1698148800000"#, with: #""signedDate":1750000000000"#)
      let extended = plain.replacing("{\"", with: "{ \(Texts.advancedCommerce),\"", maxReplacements: 1)
      let jws = try authority.sign(bytes: Array(extended.utf8))
      let signed = try verify(jws)
      #expect(signed.payload == (try verify(authority.sign(bytes: Array(plain.utf8)))).payload)
      #expect(signed.payloadBytes == Array(extended.utf8))
      #expect(signed.compactJWS == jws)
    }
    try verifies(Texts.transaction) { try authority.verifier.transaction($0) }
    try verifies(Texts.renewalInfo) { try authority.verifier.renewalInfo($0) }
  }

  @Test func `an unknown enum value survives a round trip`() throws {
    let text = Texts.transaction.replacing("REFUND_PRORATED", with: "REFUND_IN_KIND")
      .replacing(#""offerType":4"#, with: #""offerType":99"#)
    let transaction = try roundTrip(text, as: TransactionInfo.self)
    #expect(transaction.revocationType == RevocationType(rawValue: "REFUND_IN_KIND"))
    #expect(transaction.offerType == OfferType(rawValue: 99))
  }

  @Test func `a payload requires only its identifying fields`() throws {
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

  @Test func `a field of another JSON type is malformed, and the error names the field without its value`()
    throws
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

  @Test func `an app account token of all zeros counts as absent`() {
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

  @Test func `random transactions survive a round trip with any optional fields missing`() async throws {
    let whole = try #require(
      JSONSerialization.jsonObject(with: Data(Texts.transaction.utf8)) as? [String: Any])
    let required = try json(Samples.transaction).allKeys.compactMap { $0 as? String }
    var random = SeededGenerator(state: 3)
    for _ in 0..<500 {
      // Let other tests use the thread.
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
