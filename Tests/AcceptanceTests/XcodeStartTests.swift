import AppStoreSimulator
import Foundation
import TestProcess
import Testing

/// `receiptd` with a configuration that accepts what Xcode signs.
@Suite(.timeLimit(.minutes(10))) struct XcodeStartTests {
  private static let refusal =
    "environments of com.example.one: has Xcode, and the database has purchases of production"

  /// The app of ``Stage/one`` for development.
  private static func development(_ certificate: URL) -> String {
    Stage.one.replacing(
      #""environments": ["Production"]"#,
      with: #""environments": ["Xcode"], "xcode": { "certificates": ["\#(certificate.path)"] }"#)
  }

  @Test func `a server with production purchases refuses Xcode, when it reloads and when it starts`()
    async throws
  {
    try await withStage { stage in
      let certificate = stage.apps.deletingLastPathComponent().appending(path: "xcode.cer")
      try Data(stage.stores.old.identity.xcode.certificates[0]).write(to: certificate)
      let purchase = try stage.buy("one", in: stage.stores.old)
      #expect(try await stage.validate(purchase).status == 200)
      try stage.write(Self.development(certificate), to: stage.apps)
      stage.receiptd.signal(SIGHUP)
      try await stage.receiptd.awaitLog("was not reloaded")
      let line = stage.receiptd.logText.split(separator: "\n").first { $0.contains("was not reloaded") }
      #expect(line?.contains(Self.refusal) == true, "\(stage.receiptd.logText)")
      // The former configuration stays in use.
      #expect(try await stage.validate(purchase).status == 200)
      #expect(await stage.receiptd.stop() == 0)

      let start = try await stage.receiptd.run("serve")
      #expect(start.status == 1)
      #expect(start.complaint.contains("receiptd: \(Self.refusal)"), "\(start.complaint)")
      let doctor = try await stage.receiptd.run("doctor")
      #expect(doctor.status == 1)
      #expect(
        doctor.text.replacing("\n    ", with: " ").contains("FAIL  xcode: \(Self.refusal)"), "\(doctor.text)")
    }
  }

  @Test func `serve and doctor fail with the same words where the certificate of Xcode cannot be read`()
    async throws
  {
    try await withStage { stage in
      #expect(await stage.receiptd.stop() == 0)
      let certificate = stage.apps.deletingLastPathComponent().appending(path: "xcode.cer")
      try stage.write(Self.development(certificate), to: stage.apps)
      for contents in [nil, "no certificate"] {
        if let contents { try stage.write(contents, to: certificate) }
        let start = try await stage.receiptd.run("serve")
        #expect(start.status == 1)
        let words = try #require(
          start.complaint.split(separator: "\n").first { $0.hasPrefix("receiptd: ") }?.dropFirst(
            "receiptd: ".count))
        #expect(words.contains("xcode.certificates of com.example.one: "))
        let doctor = try await stage.receiptd.run("doctor")
        #expect(doctor.status == 1)
        #expect(
          doctor.text.replacing("\n    ", with: " ").contains("FAIL  xcode: \(words)"),
          "\(words)\n\(doctor.text)")
      }
    }
  }
}
