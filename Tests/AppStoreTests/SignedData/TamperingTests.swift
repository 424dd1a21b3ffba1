import Crypto
import Foundation
import Testing

@testable import AppStore

/// Attacks on a genuine JWS and its header without the leaf's key.
struct TamperingTests {
  private let authority = TestAuthority.shared

  private func code(_ jws: String, _ verifier: SignedDataVerifier? = nil) throws -> VerificationFailure.Code?
  {
    let verifier = try verifier ?? authority.verifier
    return failure { () throws(VerificationFailure) in try verifier.transaction(jws) }?.code
  }

  @Test(arguments: ["none", "None", "HS256", "ES384", "ES512", "RS256", "PS256", "EdDSA", "es256", ""])
  func `a JWS with another algorithm than ES256 is refused`(alg: String) throws {
    let jws = try authority.sign(Samples.transaction, header: Header(alg: alg, x5c: authority.x5c))
    #expect(try code(jws) == .unsupportedAlgorithm)
  }

  @Test func `a JWS with alg none, or without alg, is refused`() throws {
    let jws = try authority.sign(Samples.transaction, header: Header(alg: "none", x5c: authority.x5c))
    let unsigned = String(jws[...(try #require(jws.lastIndex(of: ".")))])
    #expect(try code(unsigned) == .unsupportedAlgorithm)
    #expect(
      try code(authority.sign(Samples.transaction, header: Header(alg: nil, x5c: authority.x5c)))
        == .unsupportedAlgorithm)
  }

  @Test func `a JWS signed by HS256 with the leaf's public key as secret is refused`() throws {
    let header = try JSONEncoder().encode(Header(alg: "HS256", x5c: authority.x5c))
    let payload = try JSONEncoder().encode(Samples.transaction)
    let input = CompactJWS.signingInput(header: Array(header), payload: Array(payload))
    for secret in [
      authority.leafKey.publicKey.derRepresentation, Data(authority.leafKey.publicKey.pemRepresentation.utf8),
    ] {
      let mac = HMAC<SHA256>.authenticationCode(for: input, using: SymmetricKey(data: secret))
      let jws = String(decoding: input, as: UTF8.self) + "." + Base64.string(Array(mac), .url)
      #expect(try code(jws) == .unsupportedAlgorithm)
    }
  }

  @Test func `a JWS header with crit is refused, whatever its value`() throws {
    let x5c = Base64.string(Array(try JSONEncoder().encode(authority.x5c)), .standard)
    let list = try #require(String(bytes: Base64.decode(x5c, .standard) ?? [], encoding: .utf8))
    for crit in [#"["exp"]"#, "[]", "null", #"["b64"],"b64":false"#] {
      let header = #"{"alg":"ES256","x5c":\#(list),"crit":\#(crit)}"#
      let jws = try authority.sign(
        bytes: Array(JSONEncoder().encode(Samples.transaction)), header: Array(header.utf8))
      #expect(try code(jws) == .criticalHeader)
    }
  }

  @Test(arguments: [
    #"{}"#, #"{"alg":1}"#, #"{"alg":"ES256","x5c":"text"}"#, "[]", "null", "", "{",
    #"{"alg":"ES256","x5c":[1,2,3]}"#,
  ])
  func `a malformed JWS header is refused`(header: String) throws {
    let jws = try authority.sign(bytes: Array("{}".utf8), header: Array(header.utf8))
    let code = try code(jws)
    #expect(code == (header == "{}" ? .unsupportedAlgorithm : .malformed))
  }

  @Test func `a JWS with one flipped bit at any place is refused`() throws {
    let text = Array(try authority.sign(Samples.transaction).utf8)
    let headerEnd = try #require(text.firstIndex(of: UInt8(ascii: ".")))
    let verifier = try authority.verifier
    _ = try verifier.transaction(String(decoding: text, as: UTF8.self))
    for index in text.indices {
      // Every position, with the bit changing from position to position.
      var changed = text
      changed[index] ^= 1 << UInt8(index % 7)
      let code = try code(String(decoding: changed, as: UTF8.self), verifier)
      if index > headerEnd {
        #expect(code == .malformed || code == .signatureInvalid, "at \(index)")
      } else {
        #expect(code != nil && code != .malformedPayload, "at \(index)")
      }
    }
    #expect(verifier.cachedCount == 1)
  }

  @Test func `a signature with one flipped bit in any byte is refused`() throws {
    let jws = try CompactJWS(authority.sign(Samples.transaction))
    let verifier = try authority.verifier
    for index in 0..<64 {
      var signature = jws.signature
      signature[index] ^= 1 << UInt8(index * 3 % 8)
      let changed = CompactJWS.join(
        headerSegment: Array(jws.headerSegment), payload: jws.payload, signature: signature)
      #expect(try code(changed, verifier) == .signatureInvalid)
    }
  }

  @Test func `a signature of another form or length is refused`() throws {
    let jws = try CompactJWS(authority.sign(Samples.transaction))
    let raw = try P256.Signing.ECDSASignature(rawRepresentation: jws.signature)
    let zeros = [UInt8](repeating: 0, count: 64)
    let order = try #require(
      Base16.bytes("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"))
    let noR = Array(zeros.prefix(32) + jws.signature.suffix(32))
    let noS = Array(jws.signature.prefix(32) + zeros.prefix(32))
    let signatures: [[UInt8]] = [
      [], Array(jws.signature.dropLast()), jws.signature + [0], [0] + jws.signature,
      Array(raw.derRepresentation),
      zeros, [UInt8](repeating: 255, count: 64), order + order, noR, noS,
    ]
    for signature in signatures {
      let changed = CompactJWS.join(
        headerSegment: Array(jws.headerSegment), payload: jws.payload, signature: signature)
      #expect(try code(changed) == .signatureInvalid)
    }
  }

  @Test func `a signature with low or high S is accepted, because Apple's have both`() throws {
    let jws = try CompactJWS(authority.sign(Samples.transaction))
    let order = try #require(
      Base16.bytes("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"))
    // S and the curve's order minus S, subtracted digit by digit.
    var other = [UInt8](repeating: 0, count: 32)
    var borrow = 0
    for index in (0..<32).reversed() {
      let difference = Int(order[index]) - Int(jws.signature[32 + index]) - borrow
      borrow = difference < 0 ? 1 : 0
      other[index] = UInt8(truncatingIfNeeded: difference)
    }
    let twin = CompactJWS.join(
      headerSegment: Array(jws.headerSegment), payload: jws.payload,
      signature: Array(jws.signature.prefix(32)) + other)
    #expect(try authority.verifier.transaction(twin).payload == Samples.transaction)
  }

  @Test func `a signature over another payload or another header is refused`() throws {
    var cheaper = Samples.transaction
    cheaper.productId = "com.example.app.lifetime"
    let first = try CompactJWS(authority.sign(Samples.transaction))
    let second = try CompactJWS(authority.sign(cheaper))
    let changed = CompactJWS.join(
      headerSegment: Array(first.headerSegment), payload: second.payload, signature: first.signature)
    #expect(try code(changed) == .signatureInvalid)
    // The same certificates in a header with another JSON layout.
    let spaced = Base64.encode(Array(" ".utf8) + (Base64.decode(first.headerSegment, .url) ?? []), .url)
    let respaced = CompactJWS.join(
      headerSegment: spaced, payload: first.payload, signature: first.signature)
    let verifier = try authority.verifier
    #expect(try code(respaced, verifier) == .signatureInvalid)
    #expect(verifier.cachedCount == 0)
  }

  @Test func `a payload of another signer under a cached header is refused`() throws {
    let verifier = try authority.verifier
    let genuine = try CompactJWS(authority.sign(Samples.transaction))
    _ = try verifier.transaction(authority.sign(Samples.transaction))
    let forger = P256.Signing.PrivateKey()
    let input = Array(genuine.headerSegment) + [46] + Base64.encode(genuine.payload, .url)
    let forged = CompactJWS.join(
      headerSegment: Array(genuine.headerSegment), payload: genuine.payload,
      signature: Array(try forger.signature(for: input).rawRepresentation))
    #expect(try code(forged, verifier) == .signatureInvalid)
  }
}

extension Base16 {
  /// The bytes of hexadecimal digits.
  static func bytes(_ text: String) -> [UInt8]? {
    let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
    guard digits.count % 2 == 0, !digits.contains(nil) else { return nil }
    let values = digits.compactMap(\.self)
    return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] << 4 | values[$0 + 1]) }
  }
}
