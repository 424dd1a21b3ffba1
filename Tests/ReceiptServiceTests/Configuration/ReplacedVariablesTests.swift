import Configuration
import Foundation
import Logging
import Testing

@testable import ReceiptService

/// Environment variables of the old backends.
@Suite struct ReplacedVariablesTests {
  private func lines(_ environment: [String: String], _ configuration: String = TestApps.json) throws
    -> [String]
  {
    let catalog = try AppCatalog(json: Data(configuration.utf8), named: "apps.json")
    let logs = LogLines()
    ReplacedVariables(in: environment, catalog: catalog).report(to: Logger(label: "tests") { _ in logs })
    return logs.all
  }

  @Test func `each kind is answered by one line that names what replaces it, without its value`() throws {
    let told = try lines([
      "APPLE_SHARED_SECRET": "s3cret", "CLOUDKIT_KEY_ID": "k3y", "CLOUDKIT_CONTAINER": "iCloud.x",
      "DATABASE_URL": "postgresql://h/d", "NODE_ENV": "staging-7", "PRODUCTION": "true",
    ])
    #expect(told.count == 3)
    #expect(told[0].contains("APPLE_SHARED_SECRET") && told[0].contains("APP_STORE_KEY_ID"))
    #expect(told[1].contains("CLOUDKIT_CONTAINER, CLOUDKIT_KEY_ID") && told[1].contains(#""cloudkit""#))
    #expect(told[2].contains("NODE_ENV, PRODUCTION") && told[2].contains(#""environments""#))
    #expect(
      !told.contains {
        $0.contains("staging-7") || $0.contains("s3cret") || $0.contains("k3y") || $0.contains("iCloud.x")
      })
  }

  @Test func `an empty variable, and one that the configuration names, cause no line`() throws {
    let named = TestApps.json.replacing("TEST_JWT_SECRET", with: "CLOUDKIT_JWT_SECRET")
    #expect(try lines(["APPLE_SHARED_SECRET": "", "CLOUDKIT_JWT_SECRET": "x"], named).isEmpty)
  }
}
