import AppStore
import FoundationEssentials

/// Where the store's ids come from: the same seed gives the same ids in the same order, so that a life
/// that went wrong can be lived again.
struct StoreIdentifiers: Sendable {
  private var random: SplitMix64
  private var lastTransaction: UInt64
  private var lastOrderLine: UInt64

  init(environment: Environment, seed: UInt64) {
    // Two environments of one seed must not give out the same UUIDs.
    random = SplitMix64(state: environment == .production ? seed : ~seed)
    // As with Apple, the number of digits tells production (15) from the sandbox (16), and the two never
    // meet. The random start keeps a simulator that was started again from giving out its old ids.
    let base: UInt64 = environment == .production ? 100_000_000_000_000 : 2_000_000_000_000_000
    lastTransaction = base + random.next() % 800_000_000_000_000
    lastOrderLine = base + random.next() % 800_000_000_000_000
  }

  mutating func transactionID() -> String {
    lastTransaction += 1
    return String(lastTransaction)
  }

  mutating func orderLineID() -> String {
    lastOrderLine += 1
    return String(lastOrderLine)
  }

  /// 18 digits, the length of Apple's.
  mutating func appTransactionID() -> String {
    String(700_000_000_000_000_000 + random.next() % 100_000_000_000_000_000)
  }

  /// A random UUID (version 4).
  mutating func uuid() -> UUID { UUID(randomFrom: &random) }

  /// A name for a customer who was given none.
  mutating func accountID() -> String { "account-\(uuid().uuidString.lowercased())" }

  /// As long as a SHA-384, in base64.
  mutating func deviceVerification() -> String {
    var bytes: [UInt8] = []
    for _ in 0..<48 { bytes.append(UInt8(truncatingIfNeeded: random.next())) }
    return Base64.string(bytes, .standard)
  }
}

/// Steele, Lea and Flood's generator: 64 bits of state, any seed is as good as another.
struct SplitMix64: RandomNumberGenerator, Sendable {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

extension UUID {
  /// A random UUID (version 4) that the generator decides.
  init(randomFrom random: inout SplitMix64) {
    let (high, low) = (random.next(), random.next())
    func byte(_ word: UInt64, _ index: UInt64) -> UInt8 {
      UInt8(truncatingIfNeeded: word >> (56 - 8 * index))
    }
    self.init(
      uuid: (
        byte(high, 0), byte(high, 1), byte(high, 2), byte(high, 3), byte(high, 4), byte(high, 5),
        byte(high, 6) & 0x0F | 0x40, byte(high, 7), byte(low, 0) & 0x3F | 0x80, byte(low, 1),
        byte(low, 2), byte(low, 3), byte(low, 4), byte(low, 5), byte(low, 6), byte(low, 7)
      ))
  }
}
