/// A random number generator that a failing test can repeat (SplitMix64).
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

extension String {
  /// Characters from all of Unicode but NUL, which PostgreSQL cannot store.
  static func random(length: Int, _ generator: inout SplitMix) -> String {
    var text = String.UnicodeScalarView()
    while text.count < length {
      guard let scalar = Unicode.Scalar(UInt32.random(in: 1...0x10FFFF, using: &generator)) else { continue }
      text.append(scalar)
    }
    return String(text)
  }
}
