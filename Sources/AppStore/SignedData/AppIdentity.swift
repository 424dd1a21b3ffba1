/// One of our apps with the environments that it accepts.
///
/// Apple signs for every app and for its sandbox. A verified payload that this check refuses belongs to another app, or
/// was not paid for.
public struct AppIdentity: Hashable, Sendable {
  /// The bundle id.
  public let bundleID: String
  /// Apple's number of the app. Without it, only the bundle id is compared.
  public let appAppleID: Int64?
  /// The environments that the app accepts. `SignedDataVerifier` sees to it that data of Xcode is signed by a
  /// configured certificate of Xcode, and no other data is; LocalTesting is never accepted.
  public let environments: Set<Environment>

  /// Makes an app identity.
  public init(bundleID: String, appAppleID: Int64? = nil, environments: Set<Environment>) {
    self.bundleID = bundleID
    self.appAppleID = appAppleID
    self.environments = environments
  }

  /// Throws unless the transaction is this app's and from an accepted environment.
  public func check(_ transaction: TransactionInfo) throws(VerificationFailure) {
    try check(.transaction, bundleID: transaction.bundleId)
    try check(.transaction, environment: transaction.environment)
  }

  /// Throws unless the renewal info is from an accepted environment. It names no app: the transaction of the same
  /// `originalTransactionId` does.
  public func check(_ renewalInfo: RenewalInfo) throws(VerificationFailure) {
    try check(.renewalInfo, environment: renewalInfo.environment)
  }

  /// Throws unless the app transaction is this app's, from an accepted environment, and in production carries Apple's
  /// number of the app.
  public func check(_ appTransaction: AppTransaction) throws(VerificationFailure) {
    try check(.appTransaction, bundleID: appTransaction.bundleId)
    try check(.appTransaction, environment: appTransaction.environment)
    try check(.appTransaction, appAppleID: appTransaction.appAppleId, in: appTransaction.environment)
  }

  /// Throws unless the notification and its content are this app's, from an accepted environment, and in production
  /// carry Apple's number of the app.
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

  private static let known: Set<Environment> = [.production, .sandbox, .xcode]

  private func check(
    _ subject: VerificationFailure.Subject, environment: Environment?
  ) throws(VerificationFailure) {
    if let environment, environments.contains(environment), Self.known.contains(environment) { return }
    let accepted = environments.intersection(Self.known).map(\.rawValue).sorted().joined(
      separator: ", ")
    let found = environment.map { "comes from '\($0.rawValue.fitForLog)'" } ?? "names no environment"
    throw .init(
      .wrongEnvironment, "the payload \(found); the app accepts: \(accepted)", subject: subject,
      isAuthentic: true)
  }

  private func check(
    _ subject: VerificationFailure.Subject, appAppleID: Int64?, in environment: Environment?
  ) throws(VerificationFailure) {
    guard environment == .production, let expected = self.appAppleID, appAppleID != expected else { return }
    let found = appAppleID.map { "has the appAppleId \($0)" } ?? "has no appAppleId"
    throw .init(
      .wrongApp, "the payload \(found), the app has \(expected)", subject: subject, isAuthentic: true)
  }
}
