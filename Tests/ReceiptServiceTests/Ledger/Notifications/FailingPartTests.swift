import AppStore
import AppStoreSimulator
import Configuration
import Curl
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

/// Notifications with a valid signature and a transaction or renewal info that does not verify.
@Suite struct FailingPartTests {
  /// The fault of the part.
  enum Fault: String, CaseIterable {
    case signature, form, root, certificate, bundle, environment, payload
    case renewalSignature, renewalEnvironment

    /// The value of `notifications.failure`, and the error code for support.
    var words: (failure: String, code: String) {
      switch self {
      case .signature, .renewalSignature: ("signature_invalid", "invalid_signature")
      case .form: ("malformed", "invalid_signature")
      case .root: ("untrusted_root", "invalid_signature")
      case .certificate: ("certificate_not_valid_at_signed_date", "certificate_expired")
      case .bundle: ("inner_mismatch", "wrong_app")
      case .environment, .renewalEnvironment: ("inner_mismatch", "wrong_environment")
      case .payload: ("malformed_payload", "invalid_signature")
      }
    }

    /// Whether a restart can cure it.
    var isCurable: Bool { self == .root || self == .payload }
  }

  @Test(arguments: Fault.allCases)
  func `a notification with an invalid part gets 200 and is stored as failed with the reason`(
    fault: Fault
  ) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.row(of: bought.originalTransactionID)
      harness.clock.advance(days: 1)
      let uuid = UUID()
      let signed = try harness.notification(uuid, of: bought, fault)
      for _ in 0..<2 { #expect(try await harness.notify(signed).status == 200) }

      #expect(try await harness.row(of: bought.originalTransactionID) == before)
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
      #expect(try await harness.count("transactions") == 1)
      let rows = try await harness.pool.query(
        """
        SELECT outcome, processed_at, failure, failure_detail, bundle_id, environment FROM notifications
        WHERE notification_uuid = \(uuid)
        """)
      let row = try #require(rows.first)
      #expect(try row.decode("outcome", as: String.self) == "failed")
      #expect(try row.decode("processed_at", as: Date?.self) == nil)
      #expect(try row.decode("failure", as: String?.self) == fault.words.failure)
      #expect(try row.decode("failure_detail", as: String?.self)?.contains(fault.words.failure) == true)
      #expect(try row.decode("bundle_id", as: String?.self) == TestApps.climbing)
      #expect(try row.decode("environment", as: String?.self) == "Production")
      let waiting = try await harness.pool.query(
        "SELECT why, failure FROM support_waiting_notifications")
      #expect(try waiting.map { try $0.decode("why", as: String.self) } == ["failed"])
      #expect(try waiting.map { try $0.decode("failure", as: String?.self) } == [fault.words.failure])
    }
  }

  @Test(arguments: Fault.allCases)
  func `a replay reports why a notification's part still fails, and a start replays curable failures`(
    fault: Fault
  )
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      let uuid = UUID()
      #expect(
        try await harness.notify(harness.notification(uuid, of: bought, fault)).status == 200)
      func replayedAt() async throws -> Date? {
        let rows = try await harness.pool.query(
          "SELECT replayed_at FROM notifications WHERE notification_uuid = \(uuid)")
        return try #require(rows.first).decode("replayed_at")
      }
      await harness.service.replayWaiting(only: .failed)
      #expect(try await replayedAt() == nil)
      await harness.service.replayWaiting()
      #expect(try await (replayedAt() != nil) == fault.isCurable)

      harness.clock.advance(seconds: 60)
      let answer = try await harness.send(
        .post, "/support/v1/replay",
        json: #"{"notificationUUID": "\#(uuid)", "by": "ada", "reason": "ticket 812"}"#,
        token: Harness.supportToken, to: harness.adminAddress)
      #expect(answer.string("outcome") == "failed")
      #expect(answer.bool("isProcessed") == false)
      #expect(answer.code == fault.words.code)
      #expect(answer.string("detail")?.contains(fault.words.failure) == true)
      #expect(try await replayedAt() == harness.clock.now)
    }
  }

  @Test func `a notification part under another root is processed at the first start that trusts the root`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      let other = try SigningAuthority()
      #expect(
        try await harness.notify(
          harness.notification(UUID(), of: bought, by: other.signer) { info in
            info.revocationDate = harness.clock.now
            info.revocationReason = .refundedForOtherReason
          }
        ).status == 200)
      #expect(try await harness.isPremium(user))

      let file = FileManager.default.temporaryDirectory.appending(path: "root-\(UUID()).der")
      try Data(other.rootDER).write(to: file)
      defer { try? FileManager.default.removeItem(at: file) }
      let roots = try #require(harness.environment["APP_STORE_ROOTS"])
      let trusting = try await harness.service(
        configuration: TestApps.json, settings: ["APP_STORE_ROOTS": "\(roots):\(file.path)"])
      await trusting.replayWaiting()
      #expect(try await !harness.isPremium(user))
      let rows = try await harness.pool.query(
        "SELECT outcome, failure, failure_detail FROM notifications ORDER BY received_at DESC")
      let row = try #require(rows.first)
      #expect(try row.decode("outcome", as: String.self) == "applied")
      #expect(try row.decode("failure", as: String?.self) == nil)
      #expect(try row.decode("failure_detail", as: String?.self) == nil)
      await trusting.close()
    }
  }

  @Test func `notifications with invalid parts do not count against the address that posts them`()
    async throws
  {
    let limited = ["RATE_LIMIT": "2", "TRUSTED_PROXIES": "127.0.0.0/8"]
    try await withHarness(environment: limited) { harness in
      let bought = try harness.buy()
      func post(_ payload: String) async throws -> Int {
        var headers: HTTPFields = [.contentType: "application/json"]
        headers[try #require(HTTPField.Name("X-Forwarded-For"))] = "17.58.0.1"
        return try await harness.http.send(
          CurlRequest(
            method: .post, url: "http://\(harness.address)/api/v1/subscriptions/webhook", headers: headers,
            body: Array(#"{"signedPayload": "\#(payload)"}"#.utf8))
        ).status
      }
      var statuses: Set<Int> = []
      for _ in 0..<40 {
        statuses.insert(try await post(harness.notification(UUID(), of: bought, .signature)))
      }
      statuses.insert(try await post(bought.notification.signedPayload))
      #expect(statuses == [200])
      #expect(try await harness.count("notifications") == 41)
    }
  }

  @Test func `a notification with a forged signature is refused and not stored, whatever it contains`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy()
      let stranger = try SigningAuthority()
      let answer = try await harness.notify(
        harness.notification(UUID(), of: bought, envelopeBy: stranger.signer))
      #expect(answer.status == 401)
      #expect(answer.code == "invalid_signature")
      #expect(try await harness.count("notifications") == 0)
    }
  }
}

extension Harness {
  /// A signed notification about a purchase, with a faulty part.
  func notification(
    _ uuid: UUID, of bought: SignedOutcome, _ fault: FailingPartTests.Fault
  ) throws -> String {
    let authority = store.identity.authority
    switch fault {
    case .signature:
      // Under a header of its own, because the notification's signature covers a part under its header.
      let part = try authority.makeSigner().sign(bought.transaction)
      return try notification(uuid, transaction: resign(part), of: bought)
    case .form: return try notification(uuid, transaction: "a.b.c", of: bought)
    case .root: return try notification(uuid, of: bought, by: SigningAuthority().signer)
    case .certificate:
      let ended = clock.now - 400 * 86_400
      return try notification(
        uuid, of: bought, by: authority.makeSigner(validity: (ended - 86_400)..<ended))
    case .bundle: return try notification(uuid, of: bought) { $0.bundleId = TestApps.family }
    case .environment: return try notification(uuid, of: bought) { $0.environment = .sandbox }
    case .payload:
      return try notification(uuid, transaction: authority.signer.sign(json: Array("{}".utf8)), of: bought)
    case .renewalSignature:
      guard let info = bought.renewalInfo else { throw CancellationError() }
      let part = try authority.makeSigner().sign(info)
      return try notification(
        uuid, transaction: bought.signedTransaction, renewalInfo: resign(part), of: bought)
    case .renewalEnvironment:
      guard var info = bought.renewalInfo else { throw CancellationError() }
      info.environment = .sandbox
      return try notification(
        uuid, transaction: bought.signedTransaction, renewalInfo: authority.signer.sign(info), of: bought)
    }
  }

  /// A notification with the transaction of a purchase, changed and signed anew.
  fileprivate func notification(
    _ uuid: UUID, of bought: SignedOutcome, by signer: PayloadSigner? = nil,
    envelopeBy envelopeSigner: PayloadSigner? = nil, change: (inout TransactionInfo) -> Void = { _ in }
  ) throws -> String {
    var info = bought.transaction
    info.signedDate = clock.now
    change(&info)
    return try notification(
      uuid, transaction: (signer ?? store.identity.authority.signer).sign(info), of: bought,
      by: envelopeSigner)
  }

  private func notification(
    _ uuid: UUID, transaction: String, renewalInfo: String? = nil, of bought: SignedOutcome,
    by envelopeSigner: PayloadSigner? = nil
  ) throws -> String {
    var data = NotificationData(environment: .production, bundleId: bought.transaction.bundleId)
    data.appAppleId = 1_500_000_001
    data.signedTransactionInfo = transaction
    data.signedRenewalInfo = renewalInfo
    var payload = NotificationPayload(
      notificationType: .didRenew, notificationUUID: uuid.uuidString.lowercased(), signedDate: clock.now)
    payload.data = data
    return try (envelopeSigner ?? store.identity.authority.signer).sign(payload)
  }

  /// A JWS with another signature of the right form.
  private func resign(_ jws: String) -> String {
    let end = jws.lastIndex(of: ".").map { jws.index(after: $0) } ?? jws.startIndex
    return jws[..<end] + String(repeating: "A", count: jws[end...].count)
  }
}
