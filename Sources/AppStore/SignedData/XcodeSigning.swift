import Crypto
import Foundation
import X509

/// The certificates of StoreKit testing in Xcode that a development server accepts.
///
/// Xcode signs with one certificate that its developer has the key of, so these payloads prove nothing about Apple. A
/// payload that is signed by one of them counts only if it says the environment `Xcode`, and no other payload may say
/// it.
public struct XcodeCertificates: Sendable {
  private let certificates: [(der: [UInt8], certificate: PathCertificate, key: P256.Signing.PublicKey)]

  /// None: data that Xcode signed is refused.
  public static let none = XcodeCertificates(certificates: [])

  /// Whether there is none.
  public var isEmpty: Bool { certificates.isEmpty }

  private init(
    certificates: [(der: [UInt8], certificate: PathCertificate, key: P256.Signing.PublicKey)]
  ) {
    self.certificates = certificates
  }

  /// Reads files of certificates, each either one certificate as DER (Xcode's Editor > Save Public Certificate) or any
  /// number as PEM.
  public init(files: [[UInt8]]) throws(TrustedRoots.ReadingFailure) {
    var read: [(der: [UInt8], certificate: PathCertificate, key: P256.Signing.PublicKey)] = []
    for file in files {
      for der in try TrustedRoots.certificatesAsDER(in: file) {
        guard let certificate = try? PathCertificate(der: der, "Xcode") else {
          throw .notCertificates("a certificate of Xcode is not X.509")
        }
        guard let key = P256.Signing.PublicKey(certificate.certificate.publicKey) else {
          throw .notCertificates(
            "a certificate of Xcode has no key on P-256, so it cannot have signed with ES256")
        }
        read.append((der, certificate, key))
      }
    }
    certificates = read
  }

  /// The chain of a header with this certificate alone; nil for another certificate.
  func chain(of der: [UInt8], headerSegment: ArraySlice<UInt8>) -> VerifiedChain? {
    certificates.first { $0.der == der }.map {
      VerifiedChain(
        headerSegment: Array(headerSegment), key: $0.key, path: [$0.certificate], isOfXcode: true)
    }
  }
}

/// The ids under which data of Xcode is kept.
///
/// Xcode numbers transactions from 0, and again from 0 in each run. So each id is replaced by 20 digits that begin with
/// 99, which no id of Apple's has (they fit into 64 bits). They are computed from the app, the time of the first
/// purchase and Xcode's own id: the same purchase has the same id in all its payloads, and a purchase of another run
/// has another one.
enum XcodeID {
  static func of(_ parts: String...) -> String {
    let hash = SHA256.hash(data: Array(parts.joined(separator: "\n").utf8))
    let number = hash.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } % 1_000_000_000_000_000_000
    let digits = String(number)
    return "99" + String(repeating: "0", count: 18 - digits.count) + digits
  }
}

extension TransactionInfo {
  /// Whether Xcode signed it.
  public var isOfXcode: Bool { environment == .xcode }

  /// Replaces Xcode's ids.
  public mutating func takeXcodeIDs() {
    let begun = "\((originalPurchaseDate ?? purchaseDate).millisecondsSince1970 ?? 0)"
    let original = XcodeID.of(bundleId, begun, originalTransactionId)
    transactionId =
      transactionId == originalTransactionId
      ? original : XcodeID.of(bundleId, begun, originalTransactionId, transactionId)
    originalTransactionId = original
    appTransactionId = appTransactionId.map { XcodeID.of(bundleId, $0) }
    previousOriginalTransactionId = nil
  }
}

extension RenewalInfo {
  /// Whether Xcode signed it.
  public var isOfXcode: Bool { environment == .xcode }
}

extension AppTransaction {
  /// Whether Xcode signed it.
  public var isOfXcode: Bool { receiptType == .xcode }

  /// Replaces Xcode's id of the account.
  public mutating func takeXcodeIDs() {
    appTransactionId = appTransactionId.map { XcodeID.of(bundleId, $0) }
  }
}

extension SignedDataVerifier {
  /// Verifies the renewal info that a client sends with a transaction.
  ///
  /// A renewal info of Xcode names its subscription by Xcode's own number, which only its transaction completes to the
  /// id under which the subscription is kept.
  public func renewalInfo(
    _ jws: String, of transaction: Signed<TransactionInfo>
  ) throws(VerificationFailure) -> Signed<RenewalInfo> {
    let signed = try renewalInfo(jws)
    guard signed.chain.isOfXcode, transaction.chain.isOfXcode else { return signed }
    let number = try TransactionInfo(signedJSON: XcodePayload.wholeMilliseconds(transaction.payloadBytes))
      .originalTransactionId
    guard signed.payload.originalTransactionId == number else { return signed }
    var payload = signed.payload
    payload.originalTransactionId = transaction.payload.originalTransactionId
    payload.appTransactionId = transaction.payload.appTransactionId
    return Signed(
      payload: payload, payloadBytes: signed.payloadBytes, signature: signed.signature, chain: signed.chain)
  }
}

/// Payloads of Xcode have fractions of milliseconds, which Apple's have not.
enum XcodePayload {
  /// The payload with whole milliseconds in each member whose name ends in `Date`; the same bytes if it is not a JSON
  /// object.
  static func wholeMilliseconds(_ json: [UInt8]) -> [UInt8] {
    guard var members = (try? JSONSerialization.jsonObject(with: Data(json))) as? [String: Any] else {
      return json
    }
    for (name, value) in members where name.hasSuffix("Date") {
      // A number beyond 64 bits stays as it is, and is refused as a date.
      if let number = value as? Double, let whole = Int64(exactly: number.rounded()) { members[name] = whole }
    }
    return (try? JSONSerialization.data(withJSONObject: members)).map(Array.init) ?? json
  }
}
