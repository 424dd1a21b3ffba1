import Testing

@testable import Subscriptions

@Suite struct FeaturesTests {
  private let features = Features([
    "rooms": .count(3), "Über": .flag(true), "history": .unlimited, "Zoom": .word("x"),
  ])

  @Test func `features are sorted by the bytes of their names`() {
    #expect(features.ordered.map(\.name) == ["Zoom", "history", "rooms", "Über"])
  }

  @Test func `features give a value by name, and nil for an undefined name`() {
    #expect(features["rooms"] == .count(3))
    #expect(features["history"] == .unlimited)
    #expect(features["doors"] == nil)
    #expect(Features([:])["rooms"] == nil)
  }

  @Test func `features are equal in any order of definition`() {
    #expect(["a": .flag(true), "b": .count(1)] as Features == ["b": .count(1), "a": .flag(true)])
  }
}
