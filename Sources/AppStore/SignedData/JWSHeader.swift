import Foundation

/// The header of a JWS in Apple's form, with all checks that need no cryptography.
struct JWSHeader {
  /// Leaf and intermediate as DER. The third certificate is ignored: the sender chose it, and only the configured roots
  /// are trusted.
  let leaf: [UInt8]
  let intermediate: [UInt8]

  init(segment: ArraySlice<UInt8>) throws(VerificationFailure) {
    guard let json = Base64.decode(segment, .url) else {
      throw .init(.malformed, "the header segment is not strict base64url")
    }
    let fields: Fields
    do {
      fields = try JSONDecoder().decode(Fields.self, from: Data(json))
    } catch {
      throw .init(.malformed, "the header is not a JSON object with a string alg and an array x5c of strings")
    }
    guard fields.alg == "ES256" else {
      throw .init(.unsupportedAlgorithm, "alg is not ES256, the only algorithm that the App Store uses")
    }
    guard !fields.hasCritical else {
      throw .init(.criticalHeader, "the header has crit, which the App Store does not use")
    }
    let certificates = fields.x5c ?? []
    guard certificates.count == 3 else {
      let hint = certificates.count == 1 ? "; StoreKit testing in Xcode signs with one" : ""
      throw .init(.certificateCount, "x5c holds \(certificates.count) certificates instead of 3\(hint)")
    }
    leaf = try Self.der(certificates[0], "leaf")
    intermediate = try Self.der(certificates[1], "intermediate")
    _ = try Self.der(certificates[2], "third")
  }

  private static func der(_ text: String, _ which: String) throws(VerificationFailure) -> [UInt8] {
    guard let der = Base64.decode(text, .standard) else {
      throw .init(.certificateMalformed, "the \(which) certificate in x5c is not strict base64")
    }
    return der
  }

  private struct Fields: Decodable {
    let alg: String?
    let x5c: [String]?
    let hasCritical: Bool

    enum CodingKeys: String, CodingKey { case alg, x5c, crit }

    init(from decoder: any Decoder) throws {
      let fields = try decoder.container(keyedBy: CodingKeys.self)
      alg = try fields.decodeIfPresent(String.self, forKey: .alg)
      x5c = try fields.decodeIfPresent([String].self, forKey: .x5c)
      // Its presence alone is an error.
      hasCritical = fields.contains(.crit)
    }
  }
}
