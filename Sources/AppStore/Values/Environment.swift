/// The environment of a transaction (`environment`; `receiptType` in an app transaction).
public struct Environment: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The App Store in which customers pay.
  public static let production = Self(rawValue: "Production")
  /// The App Store's sandbox, which also serves TestFlight.
  public static let sandbox = Self(rawValue: "Sandbox")
  /// StoreKit testing in Xcode, signed by the developer's machine and not by Apple.
  public static let xcode = Self(rawValue: "Xcode")
  /// Local testing, not signed by Apple.
  public static let localTesting = Self(rawValue: "LocalTesting")

  /// Whether Apple signs the payloads of this environment.
  public var isSignedByApple: Bool { self == .production || self == .sandbox }
}
