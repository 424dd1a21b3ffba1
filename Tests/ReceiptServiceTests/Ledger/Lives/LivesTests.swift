import AppStoreSimulator
import Foundation
import Subscriptions
import Testing

/// The fold of the facts of a life is what the App Store itself holds for true, in whatever order they came.
///
/// A thousand lives, or as many as the environment variable `LIVES` says, or the one whose seed is in `LIFE`.
@Suite struct LivesTests {
  @Test(arguments: portions) func `every life has every property`(seeds: Range<UInt64>) async throws {
    for seed in seeds {
      // There are as many threads as cores, and on one of them somebody's transaction may wait to go on.
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
        // One life is enough to read; the rest of the portion may fail for the same reason.
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

  /// So that all processors take part.
  private static let portions: [Range<UInt64>] = stride(from: seeds.lowerBound, to: seeds.upperBound, by: 250)
    .map { $0..<min($0 + 250, seeds.upperBound) }
}
