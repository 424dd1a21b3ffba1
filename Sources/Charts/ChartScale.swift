/// A linear scale from values to a length, with ticks at round numbers.
struct ChartScale: Sendable {
  /// The values of the ticks in ascending order. The first and last one are the ends of the scale.
  let ticks: [Double]

  var low: Double { ticks[0] }
  var high: Double { ticks[ticks.count - 1] }

  /// A scale that contains 0 and all values.
  /// - Parameter steps: about how many steps there are between ticks.
  init(of values: some Sequence<Double>, steps: Int = 4) {
    var (low, high) = (0.0, 0.0)
    for value in values where value.isFinite {
      low = min(low, value)
      high = max(high, value)
    }
    guard high > low else {
      ticks = [0, 1]
      return
    }
    let step = Self.niceStep(atLeast: (high - low) / Double(max(steps, 1)))
    let first = (low / step).rounded(.down)
    let last = (high / step).rounded(.up)
    // Multiples of the step, so that rounding errors do not add up.
    ticks = stride(from: first, through: last, by: 1).map { $0 * step }
  }

  /// The least of 1, 2, 2.5 and 5 times a power of ten that is at least this large.
  static func niceStep(atLeast raw: Double) -> Double {
    guard raw > 0, raw.isFinite else { return 1 }
    var power = 1.0
    while power * 10 <= raw { power *= 10 }
    while power > raw { power /= 10 }
    for factor in [1, 2, 2.5, 5] where power * factor >= raw * (1 - 1e-9) { return power * factor }
    return power * 10
  }

  /// The place of a value between `low` (0) and `high` (1).
  func part(of value: Double) -> Double { min(max((value - low) / (high - low), 0), 1) }
}
