import Crypto
import Foundation
import TestProcess
import Testing

@testable import AppStore

/// An authority made with the `openssl` command, which shares no code with the tested modules.
struct OpenSSLAuthority {
  let folder: URL
  let root: [UInt8]
  private let x5c: [String]

  /// The extensions are those of a plain test authority: the markers, and basic constraints for issuers.
  init(leafMarker: Bool = true, intermediateMarker: Bool = true) async throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let mark = { (oid: String, wanted: Bool) in wanted ? "\(oid)=ASN1:NULL\n" : "" }
    let ca = "basicConstraints=critical,CA:TRUE\n"
    try "[v3]\n\(ca)".write(to: folder.appending(path: "root.ext"), atomically: true, encoding: .utf8)
    try "[v3]\n\(ca)\(mark("1.2.840.113635.100.6.2.1", intermediateMarker))".write(
      to: folder.appending(path: "ca.ext"), atomically: true, encoding: .utf8)
    try "[v3]\nsubjectKeyIdentifier=hash\n\(mark("1.2.840.113635.100.6.11.1", leafMarker))".write(
      to: folder.appending(path: "leaf.ext"), atomically: true, encoding: .utf8)
    for script in [
      "ecparam -genkey -name secp384r1 -noout -out root.key",
      "ecparam -genkey -name secp384r1 -noout -out ca.key",
      "ecparam -genkey -name prime256v1 -noout -out leaf.key",
      "req -new -key root.key -subj /CN=Root -out root.csr", "req -new -key ca.key -subj /CN=CA -out ca.csr",
      "req -new -key leaf.key -subj /CN=Leaf -out leaf.csr",
      "x509 -req -in root.csr -signkey root.key -sha384 -days 20 -extfile root.ext -extensions v3 -out root.pem",
      "x509 -req -in ca.csr -CA root.pem -CAkey root.key -CAcreateserial -sha384 -days 10 -extfile ca.ext -extensions v3 -out ca.pem",
      "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 5 -extfile leaf.ext -extensions v3 -out leaf.pem",
    ] {
      try await Self.openssl(script.split(separator: " ").map(String.init), in: folder)
    }
    let folder = folder
    root = Array(try Data(contentsOf: folder.appending(path: "root.pem")))
    x5c = try ["leaf.pem", "ca.pem", "root.pem"].map { name in
      let pem = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      return pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    }
  }

  func sign(_ payload: some Encodable) async throws -> String {
    let header = Array(try JSONEncoder().encode(Header(x5c: x5c)))
    let payload = Array(try JSONEncoder().encode(payload))
    try Data(CompactJWS.signingInput(header: header, payload: payload)).write(
      to: folder.appending(path: "input"))
    try await Self.openssl(
      ["dgst", "-sha256", "-sign", "leaf.key", "-out", "signature", "input"], in: folder)
    let der = try Data(contentsOf: folder.appending(path: "signature"))
    let raw = try P256.Signing.ECDSASignature(derRepresentation: der).rawRepresentation
    return CompactJWS.join(
      headerSegment: Base64.encode(header, .url), payload: payload, signature: Array(raw))
  }

  func remove() throws { try FileManager.default.removeItem(at: folder) }

  static func openssl(_ arguments: [String], in folder: URL) async throws {
    try await Command("openssl", arguments, folder: folder).output()
  }
}
