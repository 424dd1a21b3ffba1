import Foundation
import Testing

@testable import Configuration

@Suite struct MistypedSettingTests {
  @Test(arguments: [
    ("RATE_LIMITS", "RATE_LIMIT"), ("RATELIMIT", "RATE_LIMIT"), ("TRUSTED_PROXYES", "TRUSTED_PROXIES"),
    ("DATABASE_ULR", "DATABASE_URL"), ("LOG_LEVLE", "LOG_LEVEL"),
  ])
  func `a variable that is one edit away from a setting is reported with it`(
    variable: String, setting: String
  )
    throws
  {
    let catalog = try AppCatalog(json: Data(TestApps.json.utf8), named: "apps.json")
    #expect(
      MistypedSetting.all(in: [variable: "1"], catalog: catalog)
        == [MistypedSetting(variable: variable, setting: setting)])
    #expect(MistypedSetting.all(in: [variable: ""], catalog: catalog).isEmpty)
  }

  @Test func `settings, secrets of the configuration and variables of other programs are not reported`()
    throws
  {
    let named = TestApps.json.replacing("TEST_JWT_SECRET", with: "RATE_LIMITS")
    let catalog = try AppCatalog(json: Data(named.utf8), named: "apps.json")
    var environment = Dictionary(uniqueKeysWithValues: Settings.names.map { ($0, "1") })
    for name in ["RATE_LIMITS", "HOSTS", "PORTS", "PATH", "LOGNAME", "DATABASE_HOST"] {
      environment[name] = "1"
    }
    #expect(MistypedSetting.all(in: environment, catalog: catalog).isEmpty)
  }

  @Test func `docs/configuration.md has every setting`() throws {
    let page = try String(
      contentsOfFile: URL(filePath: Harness.migrations).deletingLastPathComponent()
        .appending(path: "docs/configuration.md").path, encoding: .utf8)
    for name in Settings.names { #expect(page.contains("`\(name)`"), "\(name)") }
  }
}
