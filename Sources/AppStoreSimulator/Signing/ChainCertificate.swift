import Crypto
import Foundation
import SwiftASN1
import X509

/// The properties of one certificate of a chain.
struct ChainCertificate {
  /// The role of the certificate.
  enum Role: Equatable {
    /// Signs certificates; `maxPathLength` is the number of authorities allowed below.
    case authority(maxPathLength: Int)
    case leaf
  }

  var subject: String
  var role: Role
  var publicKey: Certificate.PublicKey
  var validity: Range<Date>
  var marker: ASN1ObjectIdentifier?

  /// Signs the certificate with the key of its issuer; without an issuer it is self-signed.
  ///
  /// Key identifiers, basic constraints and key usage satisfy OpenSSL's strict mode, which Apple's libraries use.
  func issued(
    by issuer: Certificate?, key issuerKey: Certificate.PrivateKey
  ) throws -> Certificate {
    let subjectName = try Self.name(subject)
    let issuerPublicKey = issuer?.publicKey ?? publicKey
    var extensions = Certificate.Extensions()
    switch role {
    case .authority(let maxPathLength):
      try extensions.append(
        Certificate.Extension(
          BasicConstraints.isCertificateAuthority(maxPathLength: maxPathLength), critical: true))
      try extensions.append(
        Certificate.Extension(KeyUsage(keyCertSign: true, cRLSign: true), critical: true))
    case .leaf:
      try extensions.append(
        Certificate.Extension(BasicConstraints.notCertificateAuthority, critical: true))
      try extensions.append(Certificate.Extension(KeyUsage(digitalSignature: true), critical: true))
    }
    try extensions.append(
      Certificate.Extension(SubjectKeyIdentifier(hash: publicKey), critical: false))
    try extensions.append(
      Certificate.Extension(
        AuthorityKeyIdentifier(keyIdentifier: SubjectKeyIdentifier(hash: issuerPublicKey).keyIdentifier),
        critical: false))
    if let marker { try extensions.append(AppleMarker.certificateExtension(marker)) }

    return try Certificate(
      version: .v3,
      serialNumber: Certificate.SerialNumber(),
      publicKey: publicKey,
      notValidBefore: validity.lowerBound,
      notValidAfter: validity.upperBound,
      issuer: issuer?.subject ?? subjectName,
      subject: subjectName,
      extensions: extensions,
      issuerPrivateKey: issuerKey)
  }

  private static func name(_ commonName: String) throws -> DistinguishedName {
    try DistinguishedName {
      CommonName(commonName)
      OrganizationName("receiptd App Store simulator")
      CountryName("US")
    }
  }
}

extension Certificate {
  /// The certificate as DER.
  var derBytes: [UInt8] {
    get throws {
      var serializer = DER.Serializer()
      try serializer.serialize(self)
      return serializer.serializedBytes
    }
  }
}

/// The marker extensions of the certificates that may sign App Store data.
///
/// A chain needs both, because Apple's root signs many other certificates. Their value is an ASN.1 NULL.
enum AppleMarker {
  /// On the leaf, "Mac App Store Receipt Signing".
  static let receiptSigning: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]

  /// On the intermediate, "Apple Worldwide Developer Relations".
  static let worldwideDeveloperRelations: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 1]

  static func certificateExtension(_ identifier: ASN1ObjectIdentifier) throws -> Certificate.Extension {
    var null = DER.Serializer()
    try null.serialize(ASN1Null())
    return Certificate.Extension(oid: identifier, critical: false, value: null.serializedBytes[...])
  }
}
