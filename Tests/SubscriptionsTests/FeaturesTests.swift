import Testing

@testable import Subscriptions

@Suite struct FeaturesTests {
  private let features = Features([
    "rooms": .count(3), "Über": .flag(true), "history": .unlimited, "Zoom": .word("x"),
  ])

  @Test func `features stand in the order of their names' bytes`() {
    #expect(features.ordered.map(\.name) == ["Zoom", "history", "rooms", "Über"])
  }

  @Test func `a feature is found by its name, and what the app does not speak of is nothing`() {
    #expect(features["rooms"] == .count(3))
    #expect(features["history"] == .unlimited)
    #expect(features["doors"] == nil)
    #expect(Features([:])["rooms"] == nil)
  }

  @Test func `features are the same in whatever order they were written`() {
    #expect(["a": .flag(true), "b": .count(1)] as Features == ["b": .count(1), "a": .flag(true)])
  }
}
