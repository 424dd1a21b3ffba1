/// Who has used up how much of a rate, in a fixed number of places.
///
/// Each bucket is one instant (the generic cell rate algorithm, ITU-T I.371): when it will be full again if nothing more
/// comes. A bucket that is full says nothing, so its place is free without anybody clearing it.
///
/// A key has its place in one set of eight. When all eight are in use, the newcomer takes the place of the one that is full
/// soonest, which loses the least. Whoever wants to be rid of his own bucket would have to push seven keys with emptier
/// ones into a set that he cannot tell, since keys are hashed with a secret: he would have to fill the table.
struct RateTable {
  private static let ways = 8

  private struct Place {
    var key: UInt64 = 0
    /// In nanoseconds on the clock of the calls; not later than the present means full.
    var fullAt: UInt64 = 0
  }

  private let rate: TrafficRate
  private let sets: Int
  private var places: [Place]

  /// - Parameter capacity: how many keys are remembered; rounded up to a power of two of sets.
  init(rate: TrafficRate, capacity: Int) {
    self.rate = rate
    var sets = 1
    while sets * Self.ways < capacity { sets *= 2 }
    self.sets = sets
    places = Array(repeating: Place(), count: sets * Self.ways)
  }

  /// Takes one from the key's bucket, if there is one.
  ///
  /// - Parameters:
  ///   - key: evenly spread over all numbers, in a way that nobody outside can tell.
  ///   - now: in nanoseconds; never goes back.
  /// - Returns: nil if it may go ahead; else for how many nanoseconds it may not.
  mutating func take(_ key: UInt64, at now: UInt64) -> UInt64? {
    let place = place(of: key)
    let fullAt = max(now, places[place].key == key ? places[place].fullAt : 0)
    guard fullAt - now <= rate.tolerance else { return fullAt - now - rate.tolerance }
    places[place] = Place(key: key, fullAt: fullAt + rate.interval)
    return nil
  }

  /// For how long there is nothing in the key's bucket; nil if there is something. Takes nothing.
  func wait(_ key: UInt64, at now: UInt64) -> UInt64? {
    let place = place(of: key)
    guard places[place].key == key, places[place].fullAt > now else { return nil }
    let ahead = places[place].fullAt - now
    return ahead <= rate.tolerance ? nil : ahead - rate.tolerance
  }

  /// Where the key is, or where it would be put.
  private func place(of key: UInt64) -> Int {
    let first = Int(key & UInt64(sets - 1)) * Self.ways
    var soonest = first
    for place in first..<first + Self.ways {
      if places[place].key == key { return place }
      if places[place].fullAt < places[soonest].fullAt { soonest = place }
    }
    return soonest
  }
}
