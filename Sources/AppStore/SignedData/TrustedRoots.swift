import Crypto
import FoundationEssentials
import SwiftASN1
import X509

/// The roots in which a chain may end.
public struct TrustedRoots: Sendable {
  /// SHA-256 of Apple Root CA - G3 as DER, in which every chain of the App Store ends.
  public static let appleRootG3Fingerprint =
    "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179"

  /// Why roots cannot be read.
  public enum ReadingFailure: Error, Hashable, Sendable {
    /// Neither DER nor PEM of certificates, or nothing of either. The text says what is wrong.
    case notCertificates(String)
  }

  let certificates: [Certificate]
  /// SHA-256 of each root as DER, in hexadecimal, in the order given.
  public let fingerprints: [String]

  /// From when until when each root is valid, in the order given.
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

  private static func certificatesAsDER(in file: [UInt8]) throws(ReadingFailure) -> [[UInt8]] {
    // DER of a certificate begins with a SEQUENCE, 0x30, which is '0' and begins no line of a PEM file's armour.
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
