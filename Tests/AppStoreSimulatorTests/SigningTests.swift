import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct SigningTests {
  private static func verifier(_ authority: SigningAuthority) throws -> SignedDataVerifier {
    SignedDataVerifier(roots: try TrustedRoots(files: [authority.rootDER]))
  }

  /// A minimal transaction, signed at `date`.
  private static func transaction(signedAt date: Date = Climb.start) -> TransactionInfo {
    TransactionInfo(
      transactionId: "1", originalTransactionId: "1", bundleId: Climb.bundleID, productId: Climb.monthly,
      purchaseDate: date, signedDate: date, environment: .production)
  }

  @Test(arguments: [Environment.production, .sandbox])
  func `receiptd's verifier accepts the store's payloads and reads their content`(
    environment: Environment
  ) throws {
    let store = try SimulatedAppStore(apps: [Climb.app], clock: VirtualClock { Climb.start })
    let verifier = try Self.verifier(store.identity.authority)
    let identity = AppIdentity(
      bundleID: Climb.bundleID, appAppleID: Climb.app.appAppleID, environments: [environment])

    let token = UUID()
    let bought = try store.buy(
      PurchaseRequest(
        bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "ann", appAccountToken: token,
        offer: .freeTrial()), in: environment)
    #expect(try verifier.transaction(bought.signedTransaction).payload == bought.transaction)
    let signedRenewalInfo = try #require(bought.signedRenewalInfo)
    #expect(try verifier.renewalInfo(signedRenewalInfo).payload == bought.renewalInfo)

    let outcomes = [bought, try store.perform(.failToRenew(grace: true), on: bought.originalTransactionID)]
    for outcome in outcomes {
      let verified = try verifier.notification(outcome.notification.signedPayload)
      try identity.check(verified)
      let content = outcome.notification.content
      #expect(verified.payload.notificationType == content.type)
      #expect(verified.payload.subtype == content.subtype)
      #expect(verified.payload.notificationUUID == content.uuid)
      #expect(verified.payload.version == "2.0")
      #expect(verified.payload.signedDate == content.signedDate)
      #expect(verified.payload.data?.status == content.status)
      #expect(verified.payload.data?.bundleVersion == "1.0")
      #expect(verified.transaction?.payload == content.transaction)
      #expect(verified.renewalInfo?.payload == content.renewalInfo)
    }

    let test = try store.test(bundleID: Climb.bundleID, in: environment)
    try identity.check(verifier.notification(test.signedPayload))

    let (appTransaction, signed) = try store.appTransaction(
      of: Climb.bundleID, accountID: "ann", in: environment)
    let verified = try verifier.appTransaction(signed).payload
    try identity.check(verified)
    #expect(verified == appTransaction)
    #expect(verified.appTransactionId == bought.transaction.appTransactionId)
  }

  @Test func `receiptd's verifier refuses another authority's signature`() throws {
    let jws = try SigningAuthority().signer.sign(Self.transaction())
    #expect(throws: VerificationFailure.self) {
      try Self.verifier(SigningAuthority()).transaction(jws)
    }
  }

  @Test func `receiptd's verifier refuses a leaf without Apple's marker extension and names it`() throws {
    let authority = try SigningAuthority()
    let jws = try authority.makeSigner(marked: false).sign(Self.transaction())
    let failure = #expect(throws: VerificationFailure.self) {
      try Self.verifier(authority).transaction(jws)
    }
    #expect(failure?.code == .leafMarkerMissing)
  }

  @Test func `receiptd's verifier refuses an intermediate without Apple's marker extension and names it`()
    throws
  {
    let authority = try SigningAuthority(intermediateMarked: false)
    let jws = try authority.signer.sign(Self.transaction())
    let failure = #expect(throws: VerificationFailure.self) {
      try Self.verifier(authority).transaction(jws)
    }
    #expect(failure?.code == .intermediateMarkerMissing)
  }

  @Test func `receiptd's verifier validates a leaf at the signed date`() throws {
    let authority = try SigningAuthority()
    let signer = try authority.makeSigner(validity: Date.day(0)..<Date.day(10))
    let verifier = try Self.verifier(authority)
    let valid = try verifier.transaction(signer.sign(Self.transaction(signedAt: .day(5))))
    #expect(valid.payload.signedDate == .day(5))
    for date in [Date.day(-1), .day(11)] {
      let failure = #expect(throws: VerificationFailure.self) {
        try verifier.transaction(signer.sign(Self.transaction(signedAt: date)))
      }
      #expect(failure?.code == .certificateNotValidAtSignedDate)
    }
  }

  @Test func `the store signs a custom JWS header unchanged`() throws {
    let authority = try SigningAuthority()
    let header = Array(#"{"alg":"none","x5c":[]}"#.utf8)
    let jws = try authority.signer.sign(json: Array("{}".utf8), header: header)
    #expect(jws.hasPrefix(Base64.string(header, .url) + "."))
    #expect(throws: VerificationFailure.self) { try Self.verifier(authority).transaction(jws) }
  }
}

struct StoreIdentityTests {
  private static func withFolder(_ body: (URL) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("receiptd-identity-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(folder)
  }

  @Test func `an identity that is loaded from its folder has the same keys and certificates`() throws {
    try Self.withFolder { folder in
      let made = try StoreIdentity.loadOrMake(in: folder)
      let loaded = try StoreIdentity.loadOrMake(in: folder)
      #expect(loaded.authority.signer.certificates == made.authority.signer.certificates)
      #expect(loaded.connectKey.keyID == made.connectKey.keyID)
      #expect(loaded.connectKey.issuerID == made.connectKey.issuerID)
      #expect(loaded.connectKey.pem == made.connectKey.pem)

      // Signed with the loaded keys, verified with the root file.
      for file in ["root.der", "root.pem"] {
        let root = try Data(contentsOf: folder.appendingPathComponent(file))
        let verifier = SignedDataVerifier(roots: try TrustedRoots(files: [Array(root)]))
        let transaction = TransactionInfo(
          transactionId: "1", originalTransactionId: "1", bundleId: "b", productId: "p",
          purchaseDate: Climb.start, signedDate: Climb.start, environment: .sandbox)
        let jws = try loaded.authority.makeSigner().sign(transaction)
        #expect(try verifier.transaction(jws).payload == transaction)
      }
    }
  }

  @Test func `the files of private keys are readable by their owner only`() throws {
    try Self.withFolder { folder in
      let identity = try StoreIdentity.loadOrMake(in: folder)
      let secrets = [
        "root-key.pem", "intermediate-key.pem", "leaf-key.pem",
        "AuthKey_\(identity.connectKey.keyID).p8",
      ]
      for name in secrets {
        let path = folder.appendingPathComponent(name).path
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600, "\(name)")
      }
    }
  }

  @Test func `receiptd.env names the root and the key`() throws {
    try Self.withFolder { folder in
      let identity = try StoreIdentity.loadOrMake(in: folder)
      let settings = try String(
        contentsOf: folder.appendingPathComponent("receiptd.env"), encoding: .utf8)
      let keyID = identity.connectKey.keyID
      #expect(settings.contains("APP_STORE_ROOTS='\(folder.path)/root.pem'\n"))
      #expect(settings.contains("APP_STORE_KEY='\(folder.path)/AuthKey_\(keyID).p8'\n"))
      #expect(settings.contains("APP_STORE_KEY_ID='\(keyID)'\n"))
      #expect(settings.contains("APP_STORE_ISSUER_ID='\(identity.connectKey.issuerID)'\n"))
    }
  }

  @Test func `loading an identity names the damaged file`() throws {
    try Self.withFolder { folder in
      _ = try StoreIdentity.loadOrMake(in: folder)
      try Data("rubbish".utf8).write(to: folder.appendingPathComponent("leaf-key.pem"))
      let error = #expect(throws: StoreIdentityError.self) { try StoreIdentity.load(from: folder) }
      #expect(error?.file.hasSuffix("leaf-key.pem") == true)
    }
  }
}
