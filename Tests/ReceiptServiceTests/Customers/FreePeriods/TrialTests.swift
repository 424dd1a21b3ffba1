import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

@Suite struct TrialTests {
  private func begun(_ harness: Harness) async throws -> Int {
    try await harness.pool.query("SELECT count(*) FROM trials WHERE continues IS NULL")[0].decode("count")
  }

  @Test func `fifty devices of one account that launch concurrently share one trial`() async throws {
    try await withScreenTime { harness in
      let answers = try await atOnce(50) { try await harness.launch("phone-\($0)", account: "anna") }
      // One starts it, nine find room, and ten replace another device. A device that is replaced before its answer is
      // refused.
      let served = answers.count { $0.status == 201 || $0.status == 200 }
      #expect((10...20).contains(served))
      #expect(answers.count { $0.status == 201 } <= 1)
      #expect(answers.count { $0.status == 409 && $0.code == "device_limit_reached" } == 50 - served)
      let ends = answers.filter { $0.status != 409 }.map { $0.date("trial.endsAt") }
      #expect(Set(ends) == [harness.clock.now + 30 * ScreenTime.day])
      #expect(try await begun(harness) == 1)
      #expect(try await harness.count("trials") == 10)
    }
  }

  @Test(arguments: [true, false])
  func `a device that launches fifty times concurrently has one trial`(isOneAccount: Bool) async throws {
    try await withScreenTime { harness in
      let answers = try await atOnce(50) {
        try await harness.launch("phone", account: isOneAccount ? "anna" : "anna-\($0)")
      }
      #expect(answers.count { $0.status == 201 } == 1)
      #expect(answers.count { $0.status == 200 } == 49)
      #expect(try await harness.count("trials") == 1)
    }
  }

  @Test func `a reinstall continues the trial, and starts no second one after its end`() async throws {
    try await withScreenTime { harness in
      let first = try await harness.launch("before", account: "anna")
      #expect(first.status == 201)
      let end = try #require(first.date("trial.endsAt"))
      harness.clock.advance(days: 20)
      let second = try await harness.launch("after", account: "anna")
      #expect(second.status == 200)
      #expect(second.date("trial.startedAt") == first.date("trial.startedAt"))
      #expect(second.date("trial.endsAt") == end)
      #expect(second.string("entitlements.status") == "trial")

      harness.clock.advance(days: 400)
      for device in ["before", "after", "another"] {
        let late = try await harness.launch(device, account: "anna")
        #expect(late.status == 200)
        #expect(late.date("trial.endsAt") == end)
        #expect(late.string("entitlements.status") == "expired")
        #expect(late.bool("entitlements.isAccessGranted") == false)
      }
      #expect(try await begun(harness) == 1)
    }
  }

  @Test func `another Apple Account on a device gets no second trial, on this or another device`()
    async throws
  {
    try await withScreenTime { harness in
      let end = try await harness.launch("phone", account: "anna").date("trial.endsAt")
      harness.clock.advance(days: 31)
      let boris = try await harness.launch("phone", account: "boris")
      #expect(boris.status == 200)
      #expect(boris.date("trial.endsAt") == end)
      #expect(boris.string("entitlements.status") == "grace")
      #expect(try await begun(harness) == 1)
    }
  }

  /// An app transaction without `appTransactionId`, as older systems sign it.
  private func withoutAccount(_ harness: Harness) throws -> String {
    var download = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: "anna").payload
    download.appTransactionId = nil
    return try harness.store.identity.authority.signer.sign(download)
  }

  @Test func `an app transaction without an account starts no trial on any device`()
    async throws
  {
    try await withScreenTime { harness in
      let signed = try withoutAccount(harness)
      for number in 1...20 {
        let answer = try await harness.launch("phone-\(number)", showing: signed)
        #expect(answer.status == 400)
        #expect(answer.code == "invalid_request")
        let detail = answer.string("detail") ?? ""
        #expect(
          detail.contains("appTransactionId") && detail.contains("AppTransaction.refresh()"), "\(detail)")
      }
      for table in ["trials", "outbox"] { #expect(try await harness.count(table) == 0, "\(table)") }
      #expect(try await harness.entitlements("phone-1").string("entitlements.status") == "expired")
    }
  }

  @Test
  func `a trial that began without an account continues, and the account found later gets no second one`()
    async throws
  {
    try await withScreenTime { harness in
      let start = harness.clock.now
      let end = start + 30 * ScreenTime.day
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(ScreenTime.bundleID), 'phone', \(start), \(end))
        """)
      let signed = try withoutAccount(harness)
      for (days, status) in [(0.0, "trial"), (31, "grace")] {
        harness.clock.set(start + days * ScreenTime.day)
        let answer = try await harness.launch("phone", showing: signed)
        #expect(answer.status == 200)
        #expect(answer.date("trial.endsAt") == end)
        #expect(answer.string("entitlements.status") == status)
      }
      #expect(try await harness.launch("tablet", showing: signed).status == 400)
      // The device now sends its account, so another device of the account joins the trial.
      #expect(try await harness.launch("phone", account: "anna").status == 200)
      let tablet = try await harness.launch("tablet", account: "anna")
      #expect(tablet.status == 200)
      #expect(tablet.date("trial.endsAt") == end)
      #expect(try await begun(harness) == 1)
    }
  }

  @Test func `an invalid proof starts no trial`() async throws {
    try await withScreenTime { harness in
      let sandbox = try await harness.launch("phone", in: .sandbox)
      #expect(sandbox.status == 422)
      #expect(sandbox.code == "wrong_environment")
      let other = try await harness.launch("phone", of: ScreenTime.heatlab)
      #expect(other.status == 422)
      #expect(other.code == "wrong_app")
      let none = try await harness.launch(
        "phone", bundleID: ScreenTime.heatlab, of: ScreenTime.heatlab)
      #expect(none.status == 400)
      #expect(none.code == "invalid_request")
      let users = try await harness.launch(
        "phone", bundleID: "com.swiftclimb.app", of: "com.swiftclimb.app")
      #expect(users.status == 422)
      #expect(users.code == "wrong_app")
      for forged in ["", "a.b.c", String(try anna(harness).dropLast(8))] {
        let answer = try await harness.launch("phone", showing: forged)
        #expect(answer.status == 422)
        #expect(answer.code == "invalid_signature")
      }
      #expect(try await harness.launch("", account: "anna").code == "invalid_request")
      #expect(try await harness.count("trials") == 0)
      // Without a bundle id the signed app transaction tells the app.
      let nameless = try await harness.send(
        .post, "/api/v1/trials",
        json: #"{"deviceID": "phone", "signedAppTransaction": "\#(anna(harness))"}"#)
      #expect(nameless.status == 201)
    }
  }

  private func anna(_ harness: Harness) throws -> String {
    try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: "anna").signed
  }

  @Test func `a sandbox app transaction starts a trial if sandboxGrants is everyone`() async throws {
    let configuration = try ScreenTime.configuration()
      .replacing(#""sandboxGrants": "nobody""#, with: #""sandboxGrants": "everyone""#)
    try await withHarness(configuration: configuration) { harness in
      let answer = try await harness.launch("phone", in: .sandbox)
      #expect(answer.status == 201)
    }
  }

  @Test func `while new trials are paused, a device with a trial goes on and a new one gets 409`()
    async throws
  {
    let shipped = try ScreenTime.configuration()
    let paused = shipped.replacing(
      #""bundleID": "\#(ScreenTime.bundleID)","#,
      with: #""bundleID": "\#(ScreenTime.bundleID)", "newTrials": "paused","#)
    #expect(paused != shipped)
    try await withScreenTime { harness in
      let first = try await harness.launch("phone", account: "anna")
      #expect(first.status == 201)
      let service = try await harness.service(configuration: paused)
      try await harness.serving(service) { address in
        func launch(_ device: String, _ account: String) async throws -> Answer {
          let signed = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: account).signed
          return try await harness.send(
            .post, "/api/v1/trials",
            json: #"{"deviceID": "\#(device)", "signedAppTransaction": "\#(signed)"}"#,
            to: address)
        }
        // The same device, and another one of its Apple Account.
        for device in ["phone", "reinstalled"] {
          let running = try await launch(device, "anna")
          #expect(running.status == 200)
          #expect(running.date("trial.endsAt") == first.date("trial.endsAt"))
          #expect(running.string("entitlements.status") == "trial")
        }
        let refused = try await launch("tablet", "boris")
        #expect(refused.status == 409 && refused.code == "trials_paused")
        #expect(refused.bool("success") == false)
        #expect(refused.string("error") == "Free trials are not available right now.")
        #expect(try await begun(harness) == 1)
        #expect(try await harness.entitlements("tablet").string("entitlements.status") == "expired")
      }
      await service.close()
      let reopened = try await harness.launch("tablet", account: "boris")
      #expect(reopened.status == 201)
      #expect(reopened.date("trial.endsAt") == harness.clock.now + 30 * ScreenTime.day)
    }
  }
}
