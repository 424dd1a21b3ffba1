import Platform

/// Splits of an input into the pieces in which a network may deliver it.
public enum Pieces {
  /// The bytes in pieces of 1 to 20. The same bytes give the same pieces, so that a finding can be repeated.
  public static func some(of bytes: [UInt8]) -> [[UInt8]] {
    var random = SplitMix64(state: UInt64(bytes.count))
    for byte in bytes { random.state = (random.state ^ UInt64(byte)) &* 0x100_0000_01B3 }
    var pieces: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = rest.prefix(Int.random(in: 1...20, using: &random))
      pieces.append(Array(piece))
      rest = rest.dropFirst(piece.count)
    }
    return pieces
  }

  /// Each byte on its own.
  public static func single(_ bytes: [UInt8]) -> [[UInt8]] { bytes.map { [$0] } }
}
