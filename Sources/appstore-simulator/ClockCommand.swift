import AppStoreSimulator
import ArgumentParser
import Foundation

/// Reads and winds the store's clock.
struct Clock: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "The store's time; with an option it is wound forward or runs at another rate.",
    discussion: "What becomes due is sent before the answer. Time never goes back.")

  @Option(help: "Wind forward by a period such as P1D or PT12H, or by so many seconds.")
  var advance: String?
  @Option(help: "Wind to a time ahead, in RFC 3339.") var set: String?
  @Option(help: "Seconds of the store's time for each real one: 1 is real time, 3600 an hour a second.")
  var rate: Double?
  @Flag(help: "Let it stand still.") var freeze = false
  @OptionGroup var control: ControlOptions

  func run() async throws {
    var change = ClockParameters()
    change.now = try set.map { try Date($0, strategy: .iso8601) }
    if let seconds = advance.flatMap(Double.init) {
      change.advanceSeconds = seconds
    } else {
      change.advance = advance
    }
    change.rate = freeze ? 0 : rate
    if set == nil, advance == nil, change.rate == nil { return try await control.get("/control/clock") }
    try await control.post("/control/clock", change)
  }
}
