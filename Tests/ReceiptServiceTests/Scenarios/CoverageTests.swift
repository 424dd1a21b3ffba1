import Foundation
import Testing

/// The tests that docs/coverage.md names exist.
@Suite struct CoverageTests {
  private static let project = URL(filePath: Harness.migrations).deletingLastPathComponent()

  /// The text of each suite by its name.
  private static func suites() throws -> [String: String] {
    let folder = project.appending(path: "Tests/ReceiptServiceTests")
    let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
    var texts: [String: String] = [:]
    for case let file as URL in files?.allObjects ?? [] where file.lastPathComponent.hasSuffix("Tests.swift")
    {
      texts[file.deletingPathExtension().lastPathComponent] = try String(contentsOf: file, encoding: .utf8)
    }
    return texts
  }

  @Test func `each test of docs/coverage.md exists in its suite`() throws {
    let page = try String(contentsOf: Self.project.appending(path: "docs/coverage.md"), encoding: .utf8)
    let suites = try Self.suites()
    let rows = page.matches(of: /\| `([A-Za-z0-9]+Tests)` \| `([^`]+)` \|/)
    #expect(rows.count > 50)
    #expect(rows.count == page.split(separator: "\n").count { $0.contains("Tests` |") })
    for row in rows {
      let suite = try #require(suites[String(row.output.1)], "\(row.output.1)")
      #expect(suite.contains("`\(row.output.2)`("), "\(row.output.1): \(row.output.2)")
    }
  }
}
