import Crypto
import FuzzSupport
import X509

@testable import AppStore

/// Validates the input as leaf beside the genuine intermediate, and as intermediate beside the genuine leaf.
enum CertificateTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    let genuine = Genuine.chain
    if let (key, path) = validate(leaf: bytes, intermediate: genuine.intermediate) {
      claim(key.rawRepresentation == leafKey?.rawRepresentation, "no key is believed but the genuine leaf's")
      checkContent(of: path[0], genuine.leaf)
    }
    if let (key, path) = validate(leaf: genuine.leaf, intermediate: bytes) {
      claim(key.rawRepresentation == leafKey?.rawRepresentation, "the leaf stays the leaf")
      checkContent(of: path[1], genuine.intermediate)
    }
  }

  private static let leafKey = try? PathCertificate(der: Genuine.chain.leaf, "leaf").certificate.publicKey
    .p256Key

  /// A signature has several encodings; the signed bytes have one.
  private static func checkContent(of found: PathCertificate, _ genuine: [UInt8]) {
    guard let genuine = try? PathCertificate(der: genuine, "genuine").certificate else {
      return claim(false, "the genuine certificate can be read")
    }
    let found = found.certificate
    claim(
      found.subject == genuine.subject && found.issuer == genuine.issuer, "the names are the genuine ones")
    claim(found.serialNumber == genuine.serialNumber, "the number is the genuine one")
    claim(found.publicKey == genuine.publicKey, "the key is the genuine one")
    claim(found.extensions == genuine.extensions, "the extensions are the genuine ones")
    claim(
      found.notValidBefore == genuine.notValidBefore && found.notValidAfter == genuine.notValidAfter,
      "it is valid as long as the genuine one")
  }

  private static func validate(
    leaf: [UInt8], intermediate: [UInt8]
  ) -> (key: P256.Signing.PublicKey, path: [PathCertificate])? {
    do throws(VerificationFailure) {
      return try ChainValidation(roots: Genuine.roots).validate(leaf: leaf, intermediate: intermediate)
    } catch {
      claim(error.description.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a reason is one line")
      return nil
    }
  }
}

extension Certificate.PublicKey {
  fileprivate var p256Key: P256.Signing.PublicKey? { P256.Signing.PublicKey(self) }
}

/// Parses a file of root certificates, DER or PEM.
enum RootsTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    guard let roots = try? TrustedRoots(files: [bytes]) else { return }
    claim(!roots.certificates.isEmpty, "there is a root")
    claim(roots.fingerprints.count == roots.certificates.count, "each has a fingerprint")
    claim(roots.fingerprints.allSatisfy { $0.utf8.count == 64 }, "of SHA-256")
    claim(roots.validity.count == roots.certificates.count, "each has its time")
  }
}
