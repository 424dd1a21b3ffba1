import SwiftASN1
import X509

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
