import AppStore
import FoundationEssentials

/// What an app told of how a purchase was used: the body of Send Consumption Information as it came.
public struct ConsumptionReport: Encodable, Sendable {
  /// A value of the body, none of which has parts.
  public enum Value: Codable, Hashable, Sendable {
    case bool(Bool)
    case number(Int64)
    case text(String)

    /// Decodes one of the three.
    public init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let value = try? container.decode(Bool.self) {
        self = .bool(value)
      } else if let value = try? container.decode(Int64.self) {
        self = .number(value)
      } else {
        self = .text(try container.decode(String.self))
      }
    }

    /// Encodes the value alone.
    public func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      switch self {
      case .bool(let value): try container.encode(value)
      case .number(let value): try container.encode(value)
      case .text(let value): try container.encode(value)
      }
    }
  }

  /// When, by the store's clock.
  public var at: Date
  /// The app.
  public var bundleID: String
  /// Production or sandbox.
  public var environment: Environment
  /// The purchase that it is about.
  public var transactionID: String
  /// The version of the endpoint, 1 or 2.
  public var version: Int
  /// The body, by Apple's names.
  public var body: [String: Value]
}
