public import Foundation

#if canImport(Security)
import Security
#endif

/// Keeps small values by name: the keychain, files, or memory.
public protocol EntitlementStore: Sendable {
  /// The value; `nil` only if there is certainly none.
  /// - Throws: an error if that cannot be told now, such as a locked keychain.
  func read(_ key: String) throws -> Data?
  /// Writes a value so that it survives the end of the process.
  func write(_ data: Data, for key: String) throws
  /// Removes a value; not an error if there is none.
  func remove(_ key: String) throws
}

/// A store that lasts as long as the process, for previews and tests.
public final class MemoryStore: EntitlementStore {
  private let values = Protected<[String: Data]>([:])

  /// Creates an empty store.
  public init() {}

  /// The value of a key.
  public func read(_ key: String) -> Data? { values.with { $0[key] } }
  /// Sets a value.
  public func write(_ data: Data, for key: String) { values.with { $0[key] = data } }
  /// Removes a value.
  public func remove(_ key: String) { values.with { $0[key] = nil } }
}

/// A store of files with mode 0600 in a folder with mode 0700. A write replaces the file at once, so a process that is ended in
/// the middle leaves the old value or the new one.
public struct FileStore: EntitlementStore {
  /// The folder.
  public let folder: URL

  /// A file operation that failed.
  public struct Failure: Error, CustomStringConvertible {
    /// The operation, the file and the reason.
    public let description: String
    init(_ operation: String, _ path: String, _ reason: Int32) {
      description = "\(operation) \(path): \(String(cString: strerror(reason)))"
    }
  }

  /// Creates a store in this folder, which is made at the first write.
  public init(folder: URL) { self.folder = folder }

  /// The app's folder: `Application Support/receiptd/BUNDLEID`, on Linux `$XDG_STATE_HOME` or `~/.local/state` in place of the first.
  public init(bundleID: String) {
    #if os(Linux)
    let given = ProcessInfo.processInfo.environment["XDG_STATE_HOME"].flatMap { $0.isEmpty ? nil : $0 }
    let base =
      given.map { URL(fileURLWithPath: $0) }
      ?? FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".local/state")
    #else
    let base =
      FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
      ?? FileManager.default.temporaryDirectory
    #endif
    self.init(folder: base.appendingPathComponent("receiptd").appendingPathComponent(bundleID))
  }

  /// A file of this key. Ids of devices may have any characters, so others than letters, digits and `-` are escaped.
  private func path(_ key: String) -> String {
    let name = key.utf8.map { byte -> String in
      let isPlain =
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || byte == 45
      return isPlain ? String(UnicodeScalar(byte)) : "_" + String(byte, radix: 16)
    }.joined()
    // A file name has 255 bytes at most.
    let short = name.utf8.count <= 200 ? name : "h-" + SHA256Hex.of(key)
    return folder.appendingPathComponent(short).path
  }

  /// Reads a file.
  public func read(_ key: String) throws -> Data? {
    let path = path(key)
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT || errno == ENOTDIR { return nil }
      throw Failure("open", path, errno)
    }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    return try file.readToEnd() ?? Data()
  }

  /// Writes a new file, and renames it to its name.
  public func write(_ data: Data, for key: String) throws {
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    let path = path(key)
    let temporary = "\(path).\(UUID().uuidString)"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Failure("create", temporary, errno) }
    do {
      let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
      try file.write(contentsOf: data)
      try file.synchronize()
      try file.close()
      guard rename(temporary, path) == 0 else { throw Failure("rename", temporary, errno) }
    } catch {
      unlink(temporary)
      throw error
    }
  }

  /// Removes a file.
  public func remove(_ key: String) throws {
    let path = path(key)
    guard unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR else {
      throw Failure("remove", path, errno)
    }
  }
}

#if canImport(Security)
/// A store in the keychain: readable in the background after the first unlock, and in no backup for another device.
public struct KeychainStore: EntitlementStore {
  /// The service under which the items stand.
  public let service: String

  /// A status of the Security framework that is not a success.
  public struct Failure: Error {
    /// The `OSStatus`.
    public let status: OSStatus
  }

  /// Creates a store.
  public init(service: String) { self.service = service }

  private func item(_ key: String) -> [CFString: Any] {
    [kSecClass: kSecClassGenericPassword, kSecAttrService: service, kSecAttrAccount: key]
  }

  /// Reads an item.
  public func read(_ key: String) throws -> Data? {
    var found: CFTypeRef?
    let status = SecItemCopyMatching(
      item(key).merging([kSecReturnData: true]) { $1 } as CFDictionary, &found)
    if status == errSecItemNotFound { return nil }
    guard status == errSecSuccess, let data = found as? Data else { throw Failure(status: status) }
    return data
  }

  /// Updates an item, or adds it.
  public func write(_ data: Data, for key: String) throws {
    var status = SecItemUpdate(item(key) as CFDictionary, [kSecValueData: data] as CFDictionary)
    if status == errSecItemNotFound {
      let new: [CFString: Any] = [
        kSecValueData: data, kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
      ]
      status = SecItemAdd(item(key).merging(new) { $1 } as CFDictionary, nil)
    }
    guard status == errSecSuccess else { throw Failure(status: status) }
  }

  /// Deletes an item.
  public func remove(_ key: String) throws {
    let status = SecItemDelete(item(key) as CFDictionary)
    guard status == errSecSuccess || status == errSecItemNotFound else { throw Failure(status: status) }
  }
}
#endif
