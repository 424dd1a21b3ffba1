import SwiftASN1
import X509

/// A certificate on the path, with the rules of RFC 5280 for its position.
struct PathCertificate {
  let certificate: Certificate
  /// The position for error messages: leaf, intermediate or root.
  let name: String

  init(_ certificate: Certificate, _ name: String) {
    self.certificate = certificate
    self.name = name
  }

  /// Parses a certificate of the header.
  init(der: [UInt8], _ name: String) throws(VerificationFailure) {
    do {
      self.init(try Certificate(derEncoded: der), name)
    } catch {
      throw .init(.certificateMalformed, "the \(name) certificate in x5c is not DER of an X.509 certificate")
    }
    guard certificate.notValidBefore <= certificate.notValidAfter else {
      throw .init(.certificateMalformed, "the \(name) certificate ends before it begins")
    }
  }

  func has(_ extensionID: ASN1ObjectIdentifier) -> Bool {
    certificate.extensions[oid: extensionID] != nil
  }

  /// Checks that critical extensions are understood (section 4.2) and that only version 3 has extensions (section
  /// 4.1.2.9). Name constraints are refused: no certificate of Apple's path has them.
  func checkExtensions(understood marker: ASN1ObjectIdentifier?) throws(VerificationFailure) {
    guard certificate.version == .v3 || certificate.extensions.isEmpty else {
      throw .init(.brokenChain, "the \(name) certificate has extensions, but is not of version 3")
    }
    for found in certificate.extensions {
      let understood =
        switch found.oid {
        case .X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage, marker: true
        case .X509ExtensionID.nameConstraints: false
        default: !found.critical
        }
      guard understood else {
        throw .init(
          .brokenChain, "the \(name) certificate has the extension \(found.oid), which is not supported")
      }
    }
  }

  /// Checks that an issuer is an authority (section 4.2.1.9) and allows the number of authorities below it.
  func checkAuthority(overAuthorities below: Int) throws(VerificationFailure) {
    switch try read("basic constraints", { try $0.basicConstraints }) {
    case .isCertificateAuthority(let maxPathLength):
      if let maxPathLength, maxPathLength < below {
        throw .init(.brokenChain, "the \(name) certificate allows \(maxPathLength) authorities below it")
      }
    case .notCertificateAuthority, nil:
      throw .init(.brokenChain, "the \(name) certificate is not a certificate authority's")
    }
    try checkKeyUsage(\.keyCertSign, for: "signing certificates")
  }

  /// Checks that key usage, if present, allows the use (section 4.2.1.3). Test authorities may leave it out.
  func checkKeyUsage(_ use: (KeyUsage) -> Bool, for purpose: String) throws(VerificationFailure) {
    if let usage = try read("key usage", { try $0.keyUsage }), !use(usage) {
      throw .init(.brokenChain, "the \(name) certificate's key usage excludes \(purpose)")
    }
  }

  /// Checks that name and signature match the issuer (section 6.1.3).
  func checkIssued(by issuer: PathCertificate) throws(VerificationFailure) {
    guard certificate.issuer == issuer.certificate.subject else {
      throw .init(.brokenChain, "the \(name) certificate names another issuer than the \(issuer.name)")
    }
    // Apple signs certificates with ECDSA; weaker algorithms are refused.
    switch certificate.signatureAlgorithm {
    case .ecdsaWithSHA256, .ecdsaWithSHA384, .ecdsaWithSHA512: break
    default: throw .init(.brokenChain, "the \(name) certificate is not signed with ECDSA and SHA-2")
    }
    guard issuer.certificate.publicKey.isValidSignature(certificate.signature, for: certificate) else {
      throw .init(.brokenChain, "the \(name) certificate was not signed by the \(issuer.name)'s key")
    }
  }

  private func read<Value>(
    _ what: String, _ value: (Certificate.Extensions) throws -> Value?
  ) throws(VerificationFailure) -> Value? {
    do {
      return try value(certificate.extensions)
    } catch {
      throw .init(.certificateMalformed, "the \(name) certificate's \(what) cannot be read")
    }
  }
}
