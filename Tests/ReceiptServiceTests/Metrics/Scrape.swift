import Curl
import Foundation
import HTTPTypes
import Testing

@testable import ReceiptService

/// A parsed response of `GET /metrics`.
struct Scrape {
  let text: String
  /// Each sample by its name with labels.
  let samples: [String: Double]
  /// The names of all metrics, also of those without samples; of a histogram the names of its parts.
  let names: Set<String>

  init(_ text: String) throws {
    self.text = text
    var samples: [String: Double] = [:]
    var names: Set<String> = []
    for line in text.split(separator: "\n") {
      if line.hasPrefix("# TYPE ") {
        let words = line.split(separator: " ")
        try #require(words.count == 4)
        names.formUnion(
          words[3] == "histogram"
            ? ["_bucket", "_sum", "_count"].map { words[2] + $0 } : [String(words[2])])
      }
      guard !line.hasPrefix("#") else { continue }
      let space = try #require(line.lastIndex(of: " "))
      let key = String(line[..<space])
      #expect(samples[key] == nil, "\(key) appears twice")
      let value: Double = try #require(Double(String(line[line.index(after: space)...])))
      samples[key] = value
    }
    self.samples = samples
    self.names = names
  }

  subscript(key: String) -> Double? { samples[key] }

  /// All samples of a metric that are not zero, without its name.
  func counts(_ name: String) -> [String: Double] {
    let pairs = samples.compactMap { key, value -> (String, Double)? in
      guard value != 0, key == name || key.hasPrefix(name + "{") else { return nil }
      return (String(key.dropFirst(name.count)), value)
    }
    return Dictionary(uniqueKeysWithValues: pairs)
  }
}

extension Service {
  /// Reads the gauges from the database once, as their jobs do; a failure leaves them as they are.
  func readDatabaseGauges() async {
    try? await databaseGauges.read()
    try? await databaseGauges.readTrials()
    try? await businessGauges.read()
  }
}

extension Harness {
  func scrape() async throws -> Scrape {
    let answer = try await send(.get, "/metrics", to: adminAddress)
    #expect(answer.status == 200)
    #expect(answer.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
    return try Scrape(String(decoding: answer.body, as: UTF8.self))
  }
}
