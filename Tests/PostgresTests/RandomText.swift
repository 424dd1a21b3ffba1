import Platform

extension String {
  /// Characters from all of Unicode but NUL, which PostgreSQL cannot store.
  static func random(length: Int, _ generator: inout SplitMix64) -> String {
    var text = String.UnicodeScalarView()
    while text.count < length {
      guard let scalar = Unicode.Scalar(UInt32.random(in: 1...0x10FFFF, using: &generator)) else { continue }
      text.append(scalar)
    }
    return String(text)
  }
}
