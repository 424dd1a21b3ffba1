import AppStoreSimulator
import Foundation
import Subscriptions
import Testing

/// The fold of a life's facts equals the simulated App Store's truth, in any order of arrival.
/// Checks a thousand lives, or as many as the environment variable `LIVES` names, or the one with the seed in `LIFE`.
@Suite struct LivesTests {
  @Test(arguments: portions) func `every random life has every property`(seeds: Range<UInt64>) async throws {
    for seed in seeds {
      // There are only as many threads as cores, and the transaction of another test may wait for this one.
      await Task.yield()
      let life = RandomLife(seed: seed)
      let app = App.everything(forSeed: seed)
      for property in LifeProperty.all {
        var random = SeededGenerator(seed: seed)
        let found = try property.check(life, app, &random)
        guard !found.isEmpty else { continue }
        let report = """
          LIFE=\(seed) fails: \(property.name)
          \(found.prefix(8).joined(separator: "\n"))
          \(life)
          """
        // One failing life is enough to read; the others may fail for the same reason.
        Issue.record("\(report)")
        return
      }
    }
  }

  private static let seeds: Range<UInt64> = {
    let environment = ProcessInfo.processInfo.environment
    if let seed = environment["LIFE"].flatMap(UInt64.init) { return seed..<(seed + 1) }
    return 0..<(environment["LIVES"].flatMap(UInt64.init) ?? 1_000)
  }()

  /// Portions of the seeds, so that all processors take part.
  private static let portions: [Range<UInt64>] = stride(from: seeds.lowerBound, to: seeds.upperBound, by: 250)
    .map { $0..<min($0 + 250, seeds.upperBound) }
}
