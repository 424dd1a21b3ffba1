import AppStore
import Platform

/// The faults of notification delivery; none by default.
public struct DeliveryFaults: Codable, Hashable, Sendable {
  /// The probability that an attempt is lost, 0 to 1. The store records it as `TIMED_OUT`.
  public var loss: Double?
  /// The number of next attempts that are lost.
  public var lose: Int?
  /// The probability that a notification is sent twice, 0 to 1.
  public var duplicates: Double?
  /// The number of notifications that are held and then sent together, shuffled.
  public var reorder: Int?

  /// No faults.
  public init() {}
}

/// Decides as a value how each notification is delivered.
struct DeliveryPlan: Sendable {
  private(set) var faults = DeliveryFaults()
  private var random: SplitMix64
  private var held: [String] = []

  init(seed: UInt64) {
    random = SplitMix64(state: seed)
  }

  /// Replaces the faults.
  ///
  /// - Returns: the held notifications, shuffled, to be sent now.
  mutating func set(_ faults: DeliveryFaults) -> [String] {
    self.faults = faults
    return release()
  }

  /// - Returns: the notifications to be sent now: none while they are held, else this one or all held ones.
  mutating func admit(_ uuid: String) -> [String] {
    guard let count = faults.reorder else { return [uuid] }
    held.append(uuid)
    return held.count < count ? [] : release()
  }

  /// The number of times that one attempt arrives: 0 if it is lost.
  mutating func copies() -> Int {
    if let left = faults.lose, left > 0 {
      faults.lose = left - 1
      return 0
    }
    if happens(faults.loss) { return 0 }
    return happens(faults.duplicates) ? 2 : 1
  }

  private mutating func release() -> [String] {
    let released = held.shuffled(using: &random)
    held = []
    return released
  }

  private mutating func happens(_ probability: Double?) -> Bool {
    // Draws only for a set probability, so that faults without one do not change the sequence.
    guard let probability else { return false }
    return Double.random(in: 0..<1, using: &random) < probability
  }
}
