/// A value of a set that Apple extends without notice.
///
/// Every enumeration on Apple's wire is read into such a type, so that a value nobody has heard of yet is
/// kept as it came, compared, stored and encoded again, and never makes a payload unreadable.
public protocol OpenValue: RawRepresentable, Hashable, Codable, Sendable, CustomStringConvertible
where RawValue: Codable & Hashable & Sendable {
  /// Takes any raw value, known or not.
  init(rawValue: RawValue)
}

extension OpenValue {
  /// The raw value as it stands on the wire.
  public var description: String { "\(rawValue)" }
}
