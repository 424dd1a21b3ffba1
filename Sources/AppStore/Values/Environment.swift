/// Where a transaction took place (`environment`; `receiptType` in an app transaction).
public struct Environment: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The App Store that customers pay in.
  public static let production = Self(rawValue: "Production")
  /// The App Store's sandbox, which also serves TestFlight.
  public static let sandbox = Self(rawValue: "Sandbox")
  /// StoreKit testing in Xcode, signed by a key of the developer's machine and not by Apple.
  public static let xcode = Self(rawValue: "Xcode")
  /// Local testing, not signed by Apple.
  public static let localTesting = Self(rawValue: "LocalTesting")

  /// Whether Apple signs what comes from here.
  public var isSignedByApple: Bool { self == .production || self == .sandbox }
}
