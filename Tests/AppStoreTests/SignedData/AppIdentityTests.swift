import Foundation
import Testing

@testable import AppStore

struct AppIdentityTests {
  private func code(_ check: () throws(VerificationFailure) -> Void) -> VerificationFailure.Code? {
    let failure = failure(of: check)
    #expect(failure?.isAuthentic == true)
    return failure?.code
  }

  @Test func `payloads of the configured app are accepted`() throws {
    try Samples.identity.check(Samples.transaction)
    try Samples.identity.check(Samples.renewalInfo)
    try Samples.identity.check(Samples.appTransaction)
  }

  @Test(arguments: ["com.example.other", "com.example.app.", "com.example.App", "", "com.example"])
  func `a payload of another bundle id is refused`(bundleID: String) {
    var transaction = Samples.transaction
    transaction.bundleId = bundleID
    #expect(code { () throws(VerificationFailure) in try Samples.identity.check(transaction) } == .wrongApp)
    var app = Samples.appTransaction
    app.bundleId = bundleID
    #expect(code { () throws(VerificationFailure) in try Samples.identity.check(app) } == .wrongApp)
  }

  @Test(arguments: [
    Environment.localTesting, Environment(rawValue: "production"), Environment(rawValue: ""),
  ])
  func `an environment that is none of the App Store or Xcode is refused even if it is configured`(
    environment: Environment
  ) {
    let identity = AppIdentity(
      bundleID: Samples.bundleID, environments: [environment, .xcode, .localTesting])
    var transaction = Samples.transaction
    transaction.environment = environment
    #expect(code { () throws(VerificationFailure) in try identity.check(transaction) } == .wrongEnvironment)
    var renewal = Samples.renewalInfo
    renewal.environment = environment
    #expect(code { () throws(VerificationFailure) in try identity.check(renewal) } == .wrongEnvironment)
    var app = Samples.appTransaction
    app.receiptType = environment
    #expect(code { () throws(VerificationFailure) in try identity.check(app) } == .wrongEnvironment)
  }

  @Test func `a payload of Xcode is accepted only if Xcode is configured`() throws {
    var transaction = Samples.transaction
    transaction.environment = .xcode
    let store = AppIdentity(bundleID: Samples.bundleID, environments: [.production, .sandbox])
    #expect(code { () throws(VerificationFailure) in try store.check(transaction) } == .wrongEnvironment)
    try AppIdentity(bundleID: Samples.bundleID, environments: [.xcode]).check(transaction)
  }

  @Test func `a sandbox payload is accepted only if the sandbox is configured`() throws {
    let production = AppIdentity(bundleID: Samples.bundleID, environments: [.production])
    var transaction = Samples.transaction
    transaction.environment = .sandbox
    let failure = failure { () throws(VerificationFailure) in try production.check(transaction) }
    #expect(failure?.code == .wrongEnvironment)
    #expect(failure?.detail == "the payload comes from 'Sandbox'; the app accepts: Production")
    try Samples.identity.check(transaction)
  }

  @Test func `a production app transaction must have the app's appAppleId`() throws {
    for number in [nil, 0, 7] as [Int64?] {
      var app = Samples.appTransaction
      app.appAppleId = number
      #expect(code { () throws(VerificationFailure) in try Samples.identity.check(app) } == .wrongApp)
      app.receiptType = .sandbox
      try Samples.identity.check(app)
    }
    let unnumbered = AppIdentity(bundleID: Samples.bundleID, environments: [.production])
    try unnumbered.check(Samples.appTransaction)
  }

  @Test func `the app and environment of a notification are checked by its data`() throws {
    let authority = TestAuthority.shared
    func notification(_ change: (inout NotificationPayload) -> Void) throws -> VerifiedNotification {
      var payload = try Samples.notification(transaction: nil, renewalInfo: nil)
      change(&payload)
      return try authority.verifier.notification(authority.sign(payload))
    }
    func codeFor(_ change: (inout NotificationPayload) -> Void) throws -> VerificationFailure.Code? {
      let notification = try notification(change)
      return code { () throws(VerificationFailure) in try Samples.identity.check(notification) }
    }
    #expect(try codeFor { $0.data?.bundleId = "com.example.other" } == .wrongApp)
    #expect(try codeFor { $0.data?.appAppleId = 7 } == .wrongApp)
    #expect(try codeFor { $0.data?.appAppleId = nil } == .wrongApp)
    #expect(try codeFor { $0.data?.environment = .xcode } == .wrongEnvironment)
    #expect(try codeFor { $0.data?.environment = nil } == .wrongEnvironment)
    #expect(try codeFor { $0.data = nil } == .wrongApp)
    try Samples.identity.check(
      notification {
        $0.data?.environment = .sandbox
        $0.data?.appAppleId = nil
      })
    var token = ExternalPurchaseToken()
    token.bundleId = Samples.bundleID
    token.appAppleId = Samples.appAppleID
    token.externalPurchaseId = "SANDBOX_1"
    let production = AppIdentity(bundleID: Samples.bundleID, environments: [.production])
    let external = try notification {
      $0.data = nil
      $0.externalPurchaseToken = token
    }
    try Samples.identity.check(external)
    #expect(code { () throws(VerificationFailure) in try production.check(external) } == .wrongEnvironment)
  }

  @Test func `the detail of a verification failure has no line break and is short`() {
    var transaction = Samples.transaction
    transaction.bundleId = "com.example\n{\"level\":\"info\"}" + String(repeating: "x", count: 10_000)
    let detail =
      failure { () throws(VerificationFailure) in try Samples.identity.check(transaction) }?.detail ?? ""
    #expect(!detail.contains("\n"))
    #expect(detail.utf8.count < 400)
  }
}
