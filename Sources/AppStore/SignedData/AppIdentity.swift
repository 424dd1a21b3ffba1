/// One of our apps, and what it takes from the App Store.
///
/// A payload that verified is Apple's, but Apple signs for every app there is, and for its sandbox: what is
/// not checked here belongs to somebody else's customer, or was not paid for.
public struct AppIdentity: Hashable, Sendable {
  /// The bundle id.
  public let bundleID: String
  /// Apple's number of the app. Without it, payloads are told apart by bundle id alone.
  public let appAppleID: Int64?
  /// The environments that the app takes. Xcode and LocalTesting are not signed by Apple and are never taken.
  public let environments: Set<Environment>

  /// An app.
  public init(bundleID: String, appAppleID: Int64? = nil, environments: Set<Environment>) {
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.environments = environments
  }

  /// Throws unless the transaction is this app's, from an environment that it takes.
  public func check(_ transaction: TransactionInfo) throws(VerificationFailure) {
    try check(.transaction, bundleID: transaction.bundleId)
    try check(.transaction, environment: transaction.environment)
  }

  /// Throws unless the renewal info is from an environment that the app takes. It names no app: the
  /// transaction of the same `originalTransactionId` does.
  public func check(_ renewalInfo: RenewalInfo) throws(VerificationFailure) {
    try check(.renewalInfo, environment: renewalInfo.environment)
  }

  /// Throws unless the app transaction is this app's, from an environment that it takes, and in production
  /// bears Apple's number of it.
  public func check(_ appTransaction: AppTransaction) throws(VerificationFailure) {
    try check(.appTransaction, bundleID: appTransaction.bundleId)
    try check(.appTransaction, environment: appTransaction.environment)
    try check(.appTransaction, appAppleID: appTransaction.appAppleId, in: appTransaction.environment)
  }

  /// Throws unless the notification, and with it what is in it, is this app's, from an environment that it
  /// takes, and in production bears Apple's number of it.
  public func check(_ notification: VerifiedNotification) throws(VerificationFailure) {
    let payload = notification.payload
    try check(.notification, bundleID: payload.bundleId)
    try check(.notification, environment: payload.environment)
    try check(.notification, appAppleID: payload.appAppleId, in: payload.environment)
  }

  private func check(
    _ subject: VerificationFailure.Subject, bundleID: String?
  ) throws(VerificationFailure) {
    guard bundleID != self.bundleID else { return }
    let found = bundleID.map { "is for the app '\($0.fitForLog)'" } ?? "names no app"
    throw .init(
      .wrongApp, "the payload \(found), not for '\(self.bundleID)'", subject: subject, isAuthentic: true)
  }

  private func check(
    _ subject: VerificationFailure.Subject, environment: Environment?
  ) throws(VerificationFailure) {
    if let environment, environment.isSignedByApple, environments.contains(environment) { return }
    let taken = environments.filter(\.isSignedByApple).map(\.rawValue).sorted().joined(separator: ", ")
    let found = environment.map { "comes from '\($0.rawValue.fitForLog)'" } ?? "names no environment"
    throw .init(
      .wrongEnvironment, "the payload \(found); the app takes: \(taken)", subject: subject, isAuthentic: true)
  }

  private func check(
    _ subject: VerificationFailure.Subject, appAppleID: Int64?, in environment: Environment?
  ) throws(VerificationFailure) {
    guard environment == .production, let expected = self.appAppleID, appAppleID != expected else { return }
    let found = appAppleID.map { "bears the appAppleId \($0)" } ?? "bears no appAppleId"
    throw .init(
      .wrongApp, "the payload \(found), the app has \(expected)", subject: subject, isAuthentic: true)
  }
}
