public import Foundation

/// The customer of an app: a signed-in user, or the device.
public enum Customer: Sendable, Hashable, Codable {
  /// A user, whose access token the app has.
  case user(UUID)
  /// A device by the id that the app gave it, such as ``ReceiptdConfiguration/deviceID()``.
  case device(String)

  /// The id as the server writes it: a UUID in lower case, or the device id.
  public var id: String {
    switch self {
    case .user(let id): id.uuidString.lowercased()
    case .device(let id): id
    }
  }

  /// A name for files: user and device ids must not meet.
  @inline(never) var key: String {
    switch self {
    case .user: "user:\(id)"
    case .device: "device:\(id)"
    }
  }

  /// Whether two customers are the same.
  @inline(never) public static func == (a: Self, b: Self) -> Bool { a.key == b.key }

  /// Hashes the customer.
  public func hash(into hasher: inout Hasher) { hasher.combine(key) }

  init?(key: String) {
    if key.hasPrefix("device:") {
      self = .device(String(key.dropFirst(7)))
    } else if key.hasPrefix("user:"), let id = UUID(uuidString: String(key.dropFirst(5))) {
      self = .user(id)
    } else {
      return nil
    }
  }

  /// Reads what ``encode(to:)`` wrote.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let customer = Self(key: try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "no customer")
    }
    self = customer
  }

  /// Writes one text: `user:` or `device:`, and the id.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(key)
  }
}

/// The address of a receiptd, the app, and the parts that a test replaces.
public struct ReceiptdConfiguration: Sendable {
  /// The base address of receiptd, such as `https://receipts.example.com`.
  public var server: URL
  /// The app's bundle id, as in receiptd's configuration.
  public var bundleID: String
  /// Sends requests; `URLSession` by default.
  public var transport: any Transport
  /// Keeps entitlements, the device secret and the time: the keychain on Apple platforms, else files of mode 0600.
  public var store: any EntitlementStore
  /// Keeps purchases and events until the server has them: files, because queues are too large for a keychain.
  public var queues: any EntitlementStore
  /// The clock that decides when offline use ends.
  public var clock: any TrustedClock
  /// The longest time between two refreshes while ``Receiptd/run()`` runs, in seconds, with a fifth of random spread. A refund
  /// reaches a running app within it.
  public var refreshInterval: TimeInterval = 6 * 3600
  /// The seconds that events wait for others, to be sent in one request.
  public var eventDelay: TimeInterval = 10

  /// A random number in 0..<1, for jitter.
  var random: @Sendable () -> Double = { Double.random(in: 0..<1) }

  /// Creates a configuration with `URLSession`, the platform's store and the system's clock.
  public init(server: URL, bundleID: String) {
    self.server = server
    self.bundleID = bundleID
    transport = URLSessionTransport()
    clock = SystemClock()
    let files = FileStore(bundleID: bundleID)
    queues = files
    #if canImport(Security)
    store = KeychainStore(service: "receiptd.\(bundleID)")
    #else
    store = files
    #endif
  }

  /// The id of this device for ``Customer/device(_:)``: a UUID that is made at the first call and kept in ``store``.
  /// - Throws: the store's error, such as a keychain that is locked until the first unlock after a start.
  public func deviceID() throws -> String { try id(StoreKeys.deviceID, in: store, prefix: "") }

  /// A random id that is made at the first call and kept.
  @inline(never) func id(_ key: String, in store: any EntitlementStore, prefix: String) throws -> String {
    try Self.making.with { _ in
      if let kept = try store.read(key) { return kept.text }
      let id = prefix + UUID().uuidString
      try store.write(id.bytes, for: key)
      return id
    }
  }

  /// Two requests at once must not make two ids or two secrets: the server would know the one and the store the other.
  private static let making = Protected(())

  /// The value of `Receiptd-Device-Secret`: 32 random bytes, made at the first call. A new one is made only if the store
  /// says that there is none, never after an error.
  func deviceSecret() throws -> String {
    try Self.making.with { _ in
      if let kept = try store.read(StoreKeys.deviceSecret) { return Base64URL.string(kept) }
      var generator = SystemRandomNumberGenerator()
      let words = (generator.next(), generator.next(), generator.next(), generator.next())
      let bytes = withUnsafeBytes(of: words) { Data($0) }
      try store.write(bytes, for: StoreKeys.deviceSecret)
      return Base64URL.string(bytes)
    }
  }
}

/// The names of values in the stores.
enum StoreKeys {
  static let deviceID = "device-id"
  static let deviceSecret = "device-secret"
  static let keySet = "key-set"
  static let clock = "clock"
  static let installation = "installation"
  static let deviceProof = "device-proof"
  static let proofs = "proofs"
  static let events = "events"
  static func entitlement(of customer: Customer) -> String { "entitlement-\(customer.key)" }
}
