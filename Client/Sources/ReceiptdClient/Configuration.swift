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
  var key: String {
    switch self {
    case .user: "user:\(id)"
    case .device: "device:\(id)"
    }
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
  public func deviceID() throws -> String {
    if let kept = try store.read(StoreKeys.deviceID) { return String(decoding: kept, as: UTF8.self) }
    let id = UUID().uuidString
    try store.write(Data(id.utf8), for: StoreKeys.deviceID)
    return id
  }

  /// The value of `Receiptd-Device-Secret`: 32 random bytes, made at the first call. A new one is made only if the store
  /// says that there is none, never after an error.
  func deviceSecret() throws -> String {
    if let kept = try store.read(StoreKeys.deviceSecret) { return Base64URL.string(kept) }
    var generator = SystemRandomNumberGenerator()
    let bytes = Data((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    try store.write(bytes, for: StoreKeys.deviceSecret)
    return Base64URL.string(bytes)
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
