import Foundation
import Testing

@testable import ReceiptdClient

/// The documents say what the code does.
@Suite struct GuideTests {
  private static let project = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../../..").standardizedFileURL

  private func text(_ path: String) throws -> String {
    try String(contentsOf: Self.project.appendingPathComponent(path), encoding: .utf8)
  }

  @Test(arguments: ["SwiftClimb", "ScreenTimeRewards", "Thaqalayn", "Heatlab", "WithoutServer"])
  func `the guide's code is code that compiles`(_ app: String) throws {
    let code = try text("Client/Tests/ReceiptdClientTests/Guide/\(app).swift")
    #expect(try text("docs/client.md").contains("```swift\n\(code)```\n"))
  }

  @Test func `the guide's purchase without a network waits`() async throws {
    let server = try #require(URL(string: "https://receipts.example.com"))
    let error = try await purchaseWithoutNetwork(server: server)
    #expect(error?.advice == .retry)
    #expect(error?.code == .offline)
  }

  /// The members that the guide's tables name, as a reader finds them.
  @Test func `the guide names every member of an entitlement and of an error`() throws {
    let guide = try text("docs/client.md")
    let entitlement = Entitlement(features: Features.free)
    for child in Mirror(reflecting: entitlement).children {
      #expect(guide.contains("`\(child.label ?? "")`"), "\(child.label ?? "")")
    }
    let error = ReceiptdError(ScriptedServer.problem(503, "overloaded"))
    for child in Mirror(reflecting: error).children {
      #expect(guide.contains("`\(child.label ?? "")`"), "\(child.label ?? "")")
    }
  }

  @Test func `the free features and feature names of the guide are those of the shipped configuration`()
    throws
  {
    let apps =
      try JSONSerialization.jsonObject(with: Data(try text("config/apps.json").utf8)) as? [String: Any]
    func check<F: Codable>(_ bundle: String, _ free: F) throws {
      let list = try #require(apps?["apps"] as? [[String: Any]])
      let app = try #require(list.first { $0["bundleID"] as? String == bundle })
      func decoded(_ features: Any?) throws -> F {
        try JSONDecoder().decode(F.self, from: JSONSerialization.data(withJSONObject: try #require(features)))
      }
      func members(_ value: F) throws -> NSDictionary {
        try #require(JSONSerialization.jsonObject(with: JSONEncoder().encode(value)) as? NSDictionary)
      }
      let configured = try decoded((app["free"] as? [String: Any])?["features"])
      #expect(try members(configured) == members(free))
      for tier in (app["tiers"] as? [String: [String: Any]] ?? [:]).values {
        _ = try decoded(tier["features"])
      }
    }
    try check("com.swiftclimb.app", ClimbingFeatures.free)
    try check("com.screentimerewards", RewardsFeatures.free)
    try check("com.thaqalayn.app", TafsirFeatures.free)
    try check("com.heatlab.app", HeatFeatures.free)
  }

  @Test func `the advice for each code is that of the server's documents`() throws {
    let table = try text("docs/api.md").components(separatedBy: "### What a client does")[1]
    var checked = 0
    for line in table.split(separator: "\n") where line.hasPrefix("| `") {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      let words = cells[0].split(separator: "`").map(String.init)
      let expected: ReceiptdError.Advice =
        cells[1].hasPrefix("retries")
        ? .retry
        : cells[1].contains("proves the device")
          ? .restore : cells[1].contains("signs in") ? .signIn : .giveUp
      let headers =
        words.contains("WWW-Authenticate: DeviceSecret") ? ["WWW-Authenticate": "DeviceSecret"] : [:]
      for code in words where code.allSatisfy({ $0.isLowercase || $0 == "_" }) {
        let status =
          ["internal": 500, "request_timeout": 408, "rate_limited": 429][code]
          ?? (expected == .retry ? 503 : 422)
        let error = ReceiptdError(ScriptedServer.problem(status, code, headers: headers))
        #expect(error.advice == expected, "\(code)")
        checked += 1
      }
    }
    #expect(checked >= 20)
  }
}
