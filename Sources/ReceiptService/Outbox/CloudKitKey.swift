import Crypto
import Foundation
import HTTP
import HTTPTypes

/// A server-to-server key that signs requests to CloudKit.
struct CloudKitKey: Sendable {
  let id: String
  private let key: P256.Signing.PrivateKey

  /// - Parameter pem: as `openssl ecparam -name prime256v1 -genkey -noout` writes it (SEC 1), or PKCS #8.
  init(id: String, pem: String) throws {
    self.id = id
    key = try P256.Signing.PrivateKey(pemRepresentation: pem)
  }

  /// The fields that sign a request: ECDSA with P-256 and SHA-256, in DER, over
  /// `date:base64(SHA-256(body)):path` (CloudKit Web Services Reference, "Accessing CloudKit Using a
  /// Server-to-Server Key").
  ///
  /// - Parameters:
  ///   - path: the path from `/database` on.
  ///   - instant: now. CloudKit accepts whole seconds only.
  func fields(signing body: [UInt8], path: String, at instant: Date) throws -> HTTPFields {
    let date = RFC3339.string(from: instant)
    let digest = Data(SHA256.hash(data: body)).base64EncodedString()
    let signature = try key.signature(for: Data("\(date):\(digest):\(path)".utf8))
    var fields: HTTPFields = [.contentType: "application/json"]
    fields[Self.keyField] = id
    fields[Self.dateField] = date
    fields[Self.signatureField] = signature.derRepresentation.base64EncodedString()
    return fields
  }

  // Never `accept`: these are tokens as RFC 9110 defines them.
  private static let keyField = HTTPField.Name("X-Apple-CloudKit-Request-KeyID") ?? .accept
  private static let dateField = HTTPField.Name("X-Apple-CloudKit-Request-ISO8601Date") ?? .accept
  private static let signatureField = HTTPField.Name("X-Apple-CloudKit-Request-SignatureV1") ?? .accept
}
