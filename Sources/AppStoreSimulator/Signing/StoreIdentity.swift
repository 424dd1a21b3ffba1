import AppStore
import Crypto
import Foundation
import SwiftASN1
import X509

/// The identity of the simulated store: its signing authority and the key of its App Store Server API.
///
/// It is kept in a folder, so that servers trust a restarted simulator too.
public struct StoreIdentity: Sendable {
  /// Signs the payloads.
  public let authority: SigningAuthority

  /// The key with which callers of the App Store Server API sign their tokens.
  public let connectKey: ConnectKey

  /// Signs as StoreKit testing in Xcode does, for the environment `Xcode`.
  public let xcode: PayloadSigner

  /// Makes an identity from its parts.
  public init(
    authority: SigningAuthority, connectKey: ConnectKey = ConnectKey(), xcode: PayloadSigner? = nil
  ) throws {
    self.authority = authority
    self.connectKey = connectKey
    self.xcode = try xcode ?? SigningAuthority.makeXcodeSigner()
  }

  /// The signer of an environment's payloads.
  func signer(of environment: Environment) -> PayloadSigner {
    environment == .xcode ? xcode : authority.signer
  }

  /// Loads the identity in `folder`, or makes one if there is none.
  ///
  /// - Throws: a file system error, or ``StoreIdentityError`` for a malformed file.
  public static func loadOrMake(in folder: URL) throws -> StoreIdentity {
    let files = IdentityFiles(folder: folder)
    if FileManager.default.fileExists(atPath: files.connect.path) { return try load(from: folder) }
    let identity = try StoreIdentity(authority: try SigningAuthority())
    try identity.save(to: folder)
    return identity
  }

  /// Loads the files of ``save(to:)``.
  public static func load(from folder: URL) throws -> StoreIdentity {
    let files = IdentityFiles(folder: folder)
    let connect = try files.read(files.connect) {
      try JSONDecoder().decode(ConnectSettings.self, from: Data($0.utf8))
    }
    return try StoreIdentity(
      authority: try SigningAuthority(
        root: files.read(files.root) { try Certificate(pemEncoded: $0) },
        rootKey: files.read(files.rootKey) { try P384.Signing.PrivateKey(pemRepresentation: $0) },
        intermediate: files.read(files.intermediate) { try Certificate(pemEncoded: $0) },
        intermediateKey: files.read(files.intermediateKey) {
          try P256.Signing.PrivateKey(pemRepresentation: $0)
        },
        leaf: files.read(files.leaf) { try Certificate(pemEncoded: $0) },
        leafKey: files.read(files.leafKey) { try P256.Signing.PrivateKey(pemRepresentation: $0) }),
      connectKey: ConnectKey(
        keyID: connect.keyID, issuerID: connect.issuerID,
        privateKey: try files.read(files.connectKey(connect.keyID)) {
          try P256.Signing.PrivateKey(pemRepresentation: $0)
        }),
      xcode: try files.xcodeSigner())
  }

  /// Writes the identity into `folder`: certificates in PEM (the root as `root.der` too), keys in PEM and readable by
  /// their owner only, `AuthKey_<key id>.p8`, `xcode.cer`, and `receiptd.env` with receiptd's settings for this store.
  public func save(to folder: URL) throws {
    let files = IdentityFiles(folder: folder)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try Data(authority.rootDER).write(to: files.rootDER)
    try files.write(authority.rootPEM, to: files.root)
    try files.write(authority.intermediate.serializeAsPEM().pemString + "\n", to: files.intermediate)
    let leaf = try Certificate(derEncoded: authority.signer.certificates[0])
    try files.write(leaf.serializeAsPEM().pemString + "\n", to: files.leaf)

    try files.writeSecret(authority.rootKey.pemRepresentation + "\n", to: files.rootKey)
    try files.writeSecret(authority.intermediateKey.pemRepresentation + "\n", to: files.intermediateKey)
    try files.writeSecret(authority.signer.key.pemRepresentation + "\n", to: files.leafKey)
    try Data(xcode.certificates[0]).write(to: files.xcode)
    try files.writeSecret(xcode.key.pemRepresentation + "\n", to: files.xcodeKey)
    let connectKeyFile = files.connectKey(connectKey.keyID)
    try files.writeSecret(connectKey.pem, to: connectKeyFile)
    try files.write(
      """
      APP_STORE_ROOTS='\(files.root.path)'
      APP_STORE_KEY='\(connectKeyFile.path)'
      APP_STORE_KEY_ID='\(connectKey.keyID)'
      APP_STORE_ISSUER_ID='\(connectKey.issuerID)'

      """, to: files.settings)
    // Written last: its presence marks a complete folder.
    let connect = ConnectSettings(keyID: connectKey.keyID, issuerID: connectKey.issuerID)
    try JSONEncoder().encode(connect).write(to: files.connect)
  }

  private struct ConnectSettings: Codable {
    var keyID: String
    var issuerID: String
  }
}

/// A malformed file of a store's folder.
public struct StoreIdentityError: Error, CustomStringConvertible {
  /// The file's path.
  public let file: String
  /// The error.
  public let cause: String

  /// One line that names the file.
  public var description: String { "\(file): \(cause)" }
}

private struct IdentityFiles {
  let folder: URL

  init(folder: URL) {
    // Absolute, because receiptd.env is read in other working directories.
    self.folder = URL(fileURLWithPath: folder.path).standardizedFileURL
  }

  var rootDER: URL { file("root.der") }
  var root: URL { file("root.pem") }
  var rootKey: URL { file("root-key.pem") }
  var intermediate: URL { file("intermediate.pem") }
  var intermediateKey: URL { file("intermediate-key.pem") }
  var leaf: URL { file("leaf.pem") }
  var leafKey: URL { file("leaf-key.pem") }
  var xcode: URL { file("xcode.cer") }
  var xcodeKey: URL { file("xcode-key.pem") }
  var connect: URL { file("app-store-connect.json") }
  var settings: URL { file("receiptd.env") }
  func connectKey(_ keyID: String) -> URL { file("AuthKey_\(keyID).p8") }

  private func file(_ name: String) -> URL { folder.appendingPathComponent(name) }

  func read<Value>(_ file: URL, as parse: (String) throws -> Value) throws -> Value {
    do {
      return try parse(String(contentsOf: file, encoding: .utf8))
    } catch {
      throw StoreIdentityError(file: file.path, cause: String(describing: error))
    }
  }

  /// The signer as Xcode; a new one in a folder from before there was one.
  func xcodeSigner() throws -> PayloadSigner {
    if !FileManager.default.fileExists(atPath: xcode.path) {
      let signer = try SigningAuthority.makeXcodeSigner()
      try writeSecret(signer.key.pemRepresentation + "\n", to: xcodeKey)
      try Data(signer.certificates[0]).write(to: xcode)
    }
    return PayloadSigner(
      key: try read(xcodeKey) { try P256.Signing.PrivateKey(pemRepresentation: $0) },
      certificates: [Array(try Data(contentsOf: xcode))], isXcode: true)
  }

  func write(_ text: String, to file: URL) throws {
    try Data(text.utf8).write(to: file)
  }

  func writeSecret(_ text: String, to file: URL) throws {
    let made = FileManager.default.createFile(
      atPath: file.path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
    if !made { throw StoreIdentityError(file: file.path, cause: "cannot be written") }
  }
}
