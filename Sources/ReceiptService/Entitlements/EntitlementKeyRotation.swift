import Foundation

/// The result of a rotation of the entitlement key, for operators.
public struct EntitlementKeyRotation: Sendable, Hashable, CustomStringConvertible {
  /// The new key's id.
  public let kid: String
  /// When it begins to sign.
  public let signsFrom: Date
  /// The number of keys withdrawn.
  public internal(set) var withdrawn: Int

  /// One line.
  public var description: String {
    let before = withdrawn == 0 ? "" : "; withdrawn: \(withdrawn)"
    return "key \(kid) signs from \(signsFrom.rfc3339)\(before)"
  }
}
