import AppStore
import Platform

/// The faults of notification delivery; none by default.
public struct DeliveryFaults: Codable, Hashable, Sendable {
  /// The probability that an attempt is lost, 0 to 1. The store records it as `TIMED_OUT`.
  public var loss = 0.0
  /// The number of next attempts that are lost.
  public var lose = 0
  /// The probability that a notification is sent twice, 0 to 1.
  public var duplicates = 0.0
  /// The number of notifications that are held and then sent together, shuffled; below 2 none are held.
  public var reorder = 0
  /// The delay of a notification in seconds of the store's time.
  public var delay = 0.0

  /// No faults.
  public init() {}

  /// Decodes the present members; missing ones mean no fault.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    loss = try container.decodeIfPresent(Double.self, forKey: .loss) ?? 0
    lose = try container.decodeIfPresent(Int.self, forKey: .lose) ?? 0
    duplicates = try container.decodeIfPresent(Double.self, forKey: .duplicates) ?? 0
    reorder = try container.decodeIfPresent(Int.self, forKey: .reorder) ?? 0
    delay = try container.decodeIfPresent(Double.self, forKey: .delay) ?? 0
  }
}

/// Decides as a value how each notification is delivered.
struct DeliveryPlan: Sendable {
  /// The decision about a notification.
  enum Verdict: Hashable, Sendable {
    /// Send it now.
    case send
    /// Hold it until more notifications are there.
    case hold
    /// Send all of these now, in this order.
    case release([String])
    /// Send it after so many seconds.
    case putOff(Double)
  }

  private(set) var faults = DeliveryFaults()
  private var random: SplitMix64
  private var held: [String] = []

  init(seed: UInt64) {
    random = SplitMix64(state: seed)
  }

  /// Replaces the faults.
  ///
  /// - Returns: the held notifications, to be sent now.
  mutating func set(_ faults: DeliveryFaults) -> [String] {
    self.faults = faults
    return release()
  }

  /// Releases the held notifications, shuffled.
  mutating func release() -> [String] {
    let released = held.shuffled(using: &random)
    held = []
    return released
  }

  mutating func judge(_ uuid: String) -> Verdict {
    if faults.reorder > 1 {
      held.append(uuid)
      return held.count < faults.reorder ? .hold : .release(release())
    }
    return faults.delay > 0 ? .putOff(faults.delay) : .send
  }

  /// The number of times that one attempt arrives: 0 if it is lost.
  mutating func copies() -> Int {
    if faults.lose > 0 {
      faults.lose -= 1
      return 0
    }
    if happens(faults.loss) { return 0 }
    return happens(faults.duplicates) ? 2 : 1
  }

  private mutating func happens(_ probability: Double) -> Bool {
    // Draws only for a set probability, so that faults without one do not change the sequence.
    probability > 0 && Double.random(in: 0..<1, using: &random) < probability
  }
}
