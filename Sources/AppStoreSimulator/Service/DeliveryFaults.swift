import AppStore

/// What goes wrong on the way to the webhook. Nothing, by default.
public struct DeliveryFaults: Codable, Hashable, Sendable {
  /// How likely an attempt is to be lost on the way, 0 to 1. The store notes it as `TIMED_OUT`.
  public var loss = 0.0
  /// How many of the next attempts are lost.
  public var lose = 0
  /// How likely a notification is to be sent twice, 0 to 1.
  public var duplicates = 0.0
  /// How many notifications are held back, to be sent together in another order; below 2 none are.
  public var reorder = 0
  /// How many seconds of the store's time a notification is held back.
  public var delay = 0.0

  /// No faults.
  public init() {}

  /// Decodes what is there and leaves the rest without faults.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    loss = try container.decodeIfPresent(Double.self, forKey: .loss) ?? 0
    lose = try container.decodeIfPresent(Int.self, forKey: .lose) ?? 0
    duplicates = try container.decodeIfPresent(Double.self, forKey: .duplicates) ?? 0
    reorder = try container.decodeIfPresent(Int.self, forKey: .reorder) ?? 0
    delay = try container.decodeIfPresent(Double.self, forKey: .delay) ?? 0
  }
}

/// The way to the webhook as a value: it is asked what becomes of each notification.
struct DeliveryWay: Sendable {
  /// What becomes of a notification that is ready to be sent.
  enum Verdict: Hashable, Sendable {
    /// It is sent now.
    case send
    /// It waits for others, with which it will be shuffled.
    case hold
    /// It completes the number: all of these are sent now, in this order.
    case release([String])
    /// It is sent after so many seconds.
    case putOff(Double)
  }

  private(set) var faults = DeliveryFaults()
  private var random: SplitMix64
  private var held: [String] = []

  init(seed: UInt64) {
    random = SplitMix64(state: seed)
  }

  /// Puts other faults in force.
  ///
  /// - Returns: what was held back and is to be sent now.
  mutating func set(_ faults: DeliveryFaults) -> [String] {
    self.faults = faults
    return release()
  }

  /// What was held back, shuffled; it is held no more.
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

  /// How often one attempt arrives: not at all where it is lost.
  mutating func copies() -> Int {
    if faults.lose > 0 {
      faults.lose -= 1
      return 0
    }
    if happens(faults.loss) { return 0 }
    return happens(faults.duplicates) ? 2 : 1
  }

  private mutating func happens(_ probability: Double) -> Bool {
    // Asked only where there is a chance, so that a seed gives the same faults with and without the others.
    probability > 0 && Double.random(in: 0..<1, using: &random) < probability
  }
}
