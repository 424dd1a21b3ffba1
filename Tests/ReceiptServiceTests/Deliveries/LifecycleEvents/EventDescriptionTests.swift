import Foundation
import Subscriptions
import Testing

@testable import Ledger
@testable import ReceiptService

@Suite struct EventDescriptionTests {
  /// scripts/harness/check-api checks the document itself.
  @Test func `openapi.yaml and docs events.md have exactly the types of lifecycle events`() throws {
    let types = Set(LifecycleEventType.allCases.map(\.rawValue))
    let description = try String(contentsOf: DescribedAPI.file, encoding: .utf8)
    let schema = try #require(description.components(separatedBy: "\n    LifecycleEvent:\n").last)
    let list = try #require(schema.components(separatedBy: "          enum:\n").dropFirst().first)
    let described = list.split(separator: "\n").prefix { $0.hasPrefix("            - ") }.map {
      String($0.dropFirst("            - ".count))
    }
    #expect(Set(described) == types)
    let page = try String(
      contentsOf: DescribedAPI.file.deletingLastPathComponent().appending(path: "events.md"), encoding: .utf8)
    let rows = page.split(separator: "\n").filter { $0.hasPrefix("| `") }
    #expect(Set(rows.map { String($0.split(separator: "`")[1]) }) == types)
  }
}
