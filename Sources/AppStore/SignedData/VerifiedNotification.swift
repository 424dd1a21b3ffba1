/// A signed notification and its inner payloads.
///
/// The notification's signature covers the inner payloads. An inner payload under another header is verified by its own
/// signature too.
///
/// The inner payloads are of the same app and environment as the notification. A renewal info names no app; the
/// notification does.
public struct VerifiedNotification: Sendable {
  /// The notification.
  public let envelope: Signed<NotificationPayload>
  /// The transaction in its `data`.
  public let transaction: Signed<TransactionInfo>?
  /// The renewal info in its `data`.
  public let renewalInfo: Signed<RenewalInfo>?
  /// The app transaction in its `appData`.
  public let appTransaction: Signed<AppTransaction>?

  /// The notification's payload.
  public var payload: NotificationPayload { envelope.payload }
}

extension SignedDataVerifier {
  /// Verifies a signed notification and its inner payloads.
  ///
  /// - Parameter signedPayload: the value of `signedPayload` in the body that the App Store posts.
  /// - Throws: a failure without `isAuthentic` if the envelope does not verify; one with `isAuthentic` if an inner
  ///   payload does not verify or does not match the envelope.
  public func notification(_ signedPayload: String) throws(VerificationFailure) -> VerifiedNotification {
    let envelope: Signed<NotificationPayload> = try verify(signedPayload, as: .notification, inside: nil)
    do throws(VerificationFailure) {
      return try open(envelope)
    } catch {
      var failure = error
      failure.isAuthentic = true
      throw failure
    }
  }

  private func open(
    _ envelope: Signed<NotificationPayload>
  ) throws(VerificationFailure) -> VerifiedNotification {
    let outer = envelope.payload
    var transaction: Signed<TransactionInfo>?
    if let jws = outer.data?.signedTransactionInfo {
      let inner: Signed<TransactionInfo> = try verify(jws, as: .transaction, inside: envelope.chain)
      try outer.checkBundle(of: .transaction, inner.payload.bundleId)
      try outer.checkEnvironment(of: .transaction, inner.payload.environment)
      transaction = inner
    }
    var renewalInfo: Signed<RenewalInfo>?
    if let jws = outer.data?.signedRenewalInfo {
      let inner = try self.renewalInfo(jws, inside: envelope.chain)
      try outer.checkEnvironment(of: .renewalInfo, inner.payload.environment)
      renewalInfo = inner
    }
    var appTransaction: Signed<AppTransaction>?
    if let jws = outer.appData?.signedAppTransactionInfo {
      let inner: Signed<AppTransaction> = try verify(jws, as: .appTransaction, inside: envelope.chain)
      try outer.checkBundle(of: .appTransaction, inner.payload.bundleId)
      try outer.checkEnvironment(of: .appTransaction, inner.payload.environment)
      appTransaction = inner
    }
    return VerifiedNotification(
      envelope: envelope, transaction: transaction, renewalInfo: renewalInfo, appTransaction: appTransaction)
  }
}

extension NotificationPayload {
  fileprivate func checkBundle(
    of subject: VerificationFailure.Subject, _ inner: String
  ) throws(VerificationFailure) {
    guard inner != bundleId else { return }
    let names = "'\(inner.fitForLog)', the notification '\((bundleId ?? "").fitForLog)'"
    throw .init(.innerMismatch, field: "bundleId", "the inner payload is for \(names)", subject: subject)
  }

  fileprivate func checkEnvironment(
    of subject: VerificationFailure.Subject, _ inner: Environment
  ) throws(VerificationFailure) {
    guard inner != environment else { return }
    let names = "'\(inner.rawValue.fitForLog)', the notification '\((environment?.rawValue ?? "").fitForLog)'"
    throw .init(.innerMismatch, field: "environment", "the inner payload is of \(names)", subject: subject)
  }
}
