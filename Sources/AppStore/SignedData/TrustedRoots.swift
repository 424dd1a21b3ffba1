import Crypto
import Foundation
import SwiftASN1
import X509

/// The root certificates that a chain may end in.
public struct TrustedRoots: Sendable {
  /// SHA-256 of Apple Root CA - G3 as DER, the root of every App Store chain.
  public static let appleRootG3Fingerprint =
    "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179"

  /// The reasons why roots cannot be read.
  public enum ReadingFailure: Error, Hashable, Sendable {
    /// The file is neither DER nor PEM of certificates, or is empty. The text names the error.
    case notCertificates(String)
  }

  let certificates: [Certificate]
  /// SHA-256 of each root as DER, in hexadecimal, in the order given.
  public let fingerprints: [String]

  /// The validity period of each root, in the order given.
  public var validity: [(from: Date, until: Date)] {
    certificates.map { ($0.notValidBefore, $0.notValidAfter) }
  }

  /// Reads files of certificates, each either one certificate as DER or any number as PEM.
  public init(files: [[UInt8]]) throws(ReadingFailure) {
    var certificates: [Certificate] = []
    var fingerprints: [String] = []
    for file in files {
      for der in try Self.certificatesAsDER(in: file) {
        do {
          certificates.append(try Certificate(derEncoded: der))
        } catch {
          throw .notCertificates("a root is not an X.509 certificate: \(error)")
        }
        fingerprints.append(Base16.string(SHA256.hash(data: der)))
      }
    }
    guard !certificates.isEmpty else { throw .notCertificates("there is no root") }
    self.certificates = certificates
    self.fingerprints = fingerprints
  }

  static func certificatesAsDER(in file: [UInt8]) throws(ReadingFailure) -> [[UInt8]] {
    // DER of a certificate begins with a SEQUENCE (0x30, '0'); a PEM file begins with a dash or text.
    if file.first == 0x30 { return [file] }
    do {
      let documents = try PEMDocument.parseMultiple(pemString: String(decoding: file, as: UTF8.self))
      let der = documents.filter { $0.discriminator == Certificate.defaultPEMDiscriminator }.map(\.derBytes)
      guard !der.isEmpty else { throw ReadingFailure.notCertificates("the PEM file holds no certificate") }
      return der
    } catch {
      throw (error as? ReadingFailure) ?? .notCertificates("neither DER nor PEM: \(error)")
    }
  }
}

/// Hexadecimal, as fingerprints are written.
enum Base16 {
  static func string(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(
      decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}
