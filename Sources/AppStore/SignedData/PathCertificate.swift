import SwiftASN1
import X509

/// A certificate in its place on the path, with the rules of RFC 5280 that concern it there.
struct PathCertificate {
  let certificate: Certificate
  /// Its place, for details of failures: leaf, intermediate or root.
  let name: String

  init(_ certificate: Certificate, _ name: String) {
    self.certificate = certificate
    self.name = name
  }

  /// A certificate of the header.
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

  /// What is critical must be understood (section 4.2), and extensions belong to version 3 (section 4.1.2.9).
  /// Name constraints are not worth understanding for a path of three in which nobody has them.
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

  /// An issuer must be an authority (section 4.2.1.9), over as many authorities as stand below it.
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

  /// Key usage, where it is stated, must allow the use (section 4.2.1.3). Test authorities may leave it out.
  func checkKeyUsage(_ use: (KeyUsage) -> Bool, for purpose: String) throws(VerificationFailure) {
    if let usage = try read("key usage", { try $0.keyUsage }), !use(usage) {
      throw .init(.brokenChain, "the \(name) certificate's key usage excludes \(purpose)")
    }
  }

  /// Names and signature must match the issuer (section 6.1.3).
  func checkIssued(by issuer: PathCertificate) throws(VerificationFailure) {
    guard certificate.issuer == issuer.certificate.subject else {
      throw .init(.brokenChain, "the \(name) certificate names another issuer than the \(issuer.name)")
    }
    // Apple signs certificates with ECDSA; nothing weaker has a place in this chain.
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
