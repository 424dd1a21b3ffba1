import Foundation
import Testing

@testable import AppStore

struct NotificationTests {
  private let authority = TestAuthority.shared

  private func verify(_ payload: NotificationPayload) throws -> VerifiedNotification {
    try authority.verifier.notification(authority.sign(payload))
  }

  private func refusal(_ payload: NotificationPayload) throws -> VerificationFailure? {
    let verifier = try authority.verifier
    let jws = try authority.sign(payload)
    let failure = failure { () throws(VerificationFailure) in try verifier.notification(jws) }
    #expect(failure?.isAuthentic == true, "the envelope itself is good")
    return failure
  }

  @Test func `a verified notification has its inner payloads`() throws {
    let payload = try Samples.notification()
    let notification = try verify(payload)
    #expect(notification.payload == payload)
    #expect(notification.transaction?.payload == Samples.transaction)
    #expect(notification.transaction?.compactJWS == payload.data?.signedTransactionInfo)
    #expect(notification.renewalInfo?.payload == Samples.renewalInfo)
    #expect(notification.renewalInfo?.compactJWS == payload.data?.signedRenewalInfo)
    #expect(notification.appTransaction == nil)
    try Samples.identity.check(notification)
  }

  @Test func `a verified TEST notification has no transaction`() throws {
    let notification = try verify(Samples.notification(transaction: nil, renewalInfo: nil))
    #expect(notification.transaction == nil)
    #expect(notification.renewalInfo == nil)
  }

  @Test func `a verified RESCIND_CONSENT has its app transaction`() throws {
    var payload = try Samples.notification(transaction: nil, renewalInfo: nil)
    payload.notificationType = .rescindConsent
    payload.data = nil
    var appData = NotificationAppData(environment: .production, bundleId: Samples.bundleID)
    appData.appAppleId = Samples.appAppleID
    appData.signedAppTransactionInfo = try authority.sign(Samples.appTransaction)
    payload.appData = appData
    let notification = try verify(payload)
    #expect(notification.appTransaction?.payload == Samples.appTransaction)
    try Samples.identity.check(notification)

    var foreign = Samples.appTransaction
    foreign.bundleId = "com.example.other"
    payload.appData?.signedAppTransactionInfo = try authority.sign(foreign)
    let failure = try refusal(payload)
    #expect(failure?.code == .innerMismatch)
    #expect(failure?.subject == .appTransaction)
  }

  @Test func `an inner transaction of another app is refused`() throws {
    var foreign = Samples.transaction
    foreign.bundleId = "com.example.other"
    let failure = try refusal(Samples.notification(transaction: foreign))
    #expect(failure?.code == .innerMismatch)
    #expect(failure?.subject == .transaction)
    #expect(failure?.field == "bundleId")
    #expect(
      failure?.detail == "the inner payload is for 'com.example.other', the notification 'com.example.app'")
  }

  @Test func `inner payloads of another environment are refused`() throws {
    var transaction = Samples.transaction
    transaction.environment = .sandbox
    let first = try refusal(Samples.notification(transaction: transaction))
    #expect(first?.code == .innerMismatch)
    #expect(first?.subject == .transaction)
    var renewal = Samples.renewalInfo
    renewal.environment = .sandbox
    let second = try refusal(Samples.notification(renewalInfo: renewal))
    #expect(second?.code == .innerMismatch)
    #expect(second?.subject == .renewalInfo)
    #expect(second?.field == "environment")
  }

  @Test func `an inner JWS under another chain is verified by its own signature`() throws {
    let other = TestAuthority(name: "Other Root")
    let foreign = try refusal(Samples.notification(innerBy: other))
    #expect(foreign?.code == .untrustedRoot)
    #expect(foreign?.subject == .transaction)
  }

  @Test
  func
    `the signature of a notification covers an inner JWS under the same header, which alone would be refused`()
    throws
  {
    var payload = try Samples.notification()
    let jws = try #require(payload.data?.signedTransactionInfo)
    let unsigned =
      jws.prefix(through: try #require(jws.lastIndex(of: "."))) + String(repeating: "A", count: 86)
    payload.data?.signedTransactionInfo = String(unsigned)
    let notification = try verify(payload)
    #expect(notification.transaction?.payload == Samples.transaction)
    #expect(notification.transaction?.compactJWS == String(unsigned))
    let verifier = try authority.verifier
    // Also after the header is in the cache.
    _ = try verifier.notification(authority.sign(payload))
    let alone = failure { () throws(VerificationFailure) in try verifier.transaction(String(unsigned)) }
    #expect(alone?.code == .signatureInvalid)
  }

  @Test func `an inner JWS whose header differs from the notification's in one byte needs its own signature`()
    throws
  {
    var payload = try Samples.notification()
    // The same certificates with a member that has no meaning: the header differs and the chain does not.
    let header = try Array(JSONEncoder().encode(Header(x5c: authority.x5c)))
    let longer = header.dropLast() + Array(#","a":1}"#.utf8)
    let jws = try authority.sign(
      bytes: Array(JSONEncoder().encode(Samples.transaction)), header: Array(longer))
    payload.data?.signedTransactionInfo = jws
    #expect(try verify(payload).transaction?.payload == Samples.transaction)
    payload.data?.signedTransactionInfo =
      jws.prefix(through: try #require(jws.lastIndex(of: "."))) + String(repeating: "A", count: 86)
    let failure = try refusal(payload)
    #expect(failure?.code == .signatureInvalid)
    #expect(failure?.subject == .transaction)
  }

  @Test func `an inner JWS under the notification's header without a signature of 64 bytes is refused`()
    throws
  {
    var payload = try Samples.notification()
    let jws = try #require(payload.data?.signedTransactionInfo)
    payload.data?.signedTransactionInfo = String(jws.prefix(through: try #require(jws.lastIndex(of: "."))))
    let failure = try refusal(payload)
    #expect(failure?.code == .signatureInvalid)
    #expect(failure?.subject == .transaction)
  }

  @Test func `an inner JWS under the notification's header is refused outside of the certificates' validity`()
    throws
  {
    var transaction = Samples.transaction
    transaction.signedDate = TestAuthority.Instants.end + 1
    let failure = try refusal(Samples.notification(transaction: transaction))
    #expect(failure?.code == .certificateNotValidAtSignedDate)
    #expect(failure?.subject == .transaction)
  }

  @Test func `a genuine JWS of another kind is refused`() throws {
    var payload = try Samples.notification()
    payload.data?.signedRenewalInfo = try authority.sign(Samples.transaction)
    let transaction = try refusal(payload)
    #expect(transaction?.code == .malformedPayload)
    #expect(transaction?.subject == .renewalInfo)
    #expect(transaction?.field == "transactionId")
    payload.data?.signedTransactionInfo = try authority.sign(Samples.renewalInfo)
    #expect(try refusal(payload)?.subject == .transaction)
    payload.data?.signedTransactionInfo = try authority.sign(Samples.appTransaction)
    #expect(try refusal(payload)?.subject == .transaction)
  }

  @Test func `a notification that Apple did not sign is not authentic`() throws {
    let other = TestAuthority(name: "Other Root")
    let jws = try other.sign(Samples.notification())
    let verifier = try authority.verifier
    let failure = failure { () throws(VerificationFailure) in try verifier.notification(jws) }
    #expect(failure?.code == .untrustedRoot)
    #expect(failure?.subject == .notification)
    #expect(failure?.isAuthentic == false)
  }

  @Test func `a genuine notification without an identifying field names that field`() throws {
    let verifier = try authority.verifier
    for (json, field) in [
      (#"{"notificationType":"TEST","signedDate":1750000000000}"#, "notificationUUID"),
      (#"{"notificationType":7,"notificationUUID":"a","signedDate":1750000000000}"#, "notificationType"),
      (#"{"notificationType":"TEST","notificationUUID":"a","signedDate":"now"}"#, "signedDate"),
      (
        #"{"notificationType":"TEST","notificationUUID":"a","signedDate":1750000000000,"data":{"appAppleId":"x"}}"#,
        "data.appAppleId"
      ),
    ] {
      let jws = try authority.sign(bytes: Array(json.utf8))
      let failure = failure { () throws(VerificationFailure) in try verifier.notification(jws) }
      #expect(failure?.code == .malformedPayload)
      #expect(failure?.field == field)
      #expect(failure?.isAuthentic == true)
    }
  }
}
