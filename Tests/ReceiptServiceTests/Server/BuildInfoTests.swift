import Testing

@testable import ReceiptService

@Suite struct BuildInfoTests {
  @Test func `a build with a commit names the commit`() {
    let build = BuildInfo(release: "1.2.3", commit: "69f179593434+")
    #expect(build.version == "1.2.3")
    #expect(build.commit == "69f179593434+")
    #expect(build.text == "receiptd 1.2.3 (69f179593434+)")
  }

  @Test func `a build without a commit is a development build`() {
    let build = BuildInfo(release: "1.2.3", commit: "")
    #expect(build.version == "1.2.3-dev")
    #expect(build.commit == "unknown")
    #expect(build.text == "receiptd 1.2.3-dev")
  }
}
