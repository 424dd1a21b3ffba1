/// The SplitMix64 generator: fast and repeatable, and not for secrets.
public struct SplitMix64: RandomNumberGenerator, Sendable {
  /// The seed, or the state after some numbers.
  public var state: UInt64

  /// A generator with this seed.
  @inlinable
  public init(state: UInt64) { self.state = state }

  /// The next number.
  @inlinable
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
