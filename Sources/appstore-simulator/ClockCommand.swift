import AppStoreSimulator
import ArgumentParser
import Foundation

/// Shows and sets the store's clock.
struct Clock: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show the store's time, or set it forward or change its rate.",
    discussion: "Due notifications are sent before the response. Time never goes back.")

  @Option(help: "Advance by a period such as P1D or PT12H, or by a number of seconds.")
  var advance: String?
  @Option(help: "Set a later time, in RFC 3339.") var set: String?
  @Option(help: "Seconds of the store's time per real second: 1 is real time, 3600 an hour a second.")
  var rate: Double?
  @Flag(help: "Stop the clock.") var freeze = false
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
