import AppStore
import Foundation

/// A received body of Send Consumption Information.
public struct ConsumptionReport: Encodable, Sendable {
  /// A scalar value of the body.
  public enum Value: Codable, Hashable, Sendable {
    case bool(Bool)
    case number(Int64)
    case text(String)

    /// Decodes a boolean, number or text.
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

  /// The time by the store's clock.
  public var at: Date
  /// The app.
  public var bundleID: String
  /// Production or sandbox.
  public var environment: Environment
  /// The transaction.
  public var transactionID: String
  /// The body by Apple's member names.
  public var body: [String: Value]
}
