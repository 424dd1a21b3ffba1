import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTPTypes
import Synchronization
import TestDatabase
import Testing

/// `receiptd serve` reloads apps and roots while it serves requests.
@Suite(.timeLimit(.minutes(10))) struct ReloadTests {
  /// Stops a stream of requests.
  private final class End: Sendable {
    private let state = Atomic(false)
    var hasCome: Bool { state.load(ordering: .relaxed) }
    func come() { state.store(true, ordering: .relaxed) }
  }

  @Test func `twenty reloads during a stream of requests drop no request`() async throws {
    try await withStage { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      let end = End()
      let statuses = try await withThrowingTaskGroup(of: [Int].self) { group in
        for _ in 0..<4 {
          group.addTask {
            var statuses: [Int] = []
            while !end.hasCome { statuses.append(try await stage.validate(purchase).status) }
            return statuses
          }
        }
        var afterwards: [Int] = []
        for reload in 1...20 {
          try stage.write(reload.isMultiple(of: 2) ? Stage.one : Stage.both, to: stage.apps)
          stage.receiptd.signal(SIGHUP)
          try await stage.receiptd.awaitLog(#""reloaded the configuration""#, times: reload)
          // Each configuration serves at least one request.
          afterwards.append(try await stage.validate(purchase).status)
        }
        end.come()
        return try await group.reduce(into: afterwards) { $0 += $1 }
      }
      #expect(statuses.count > 20)
      #expect(statuses.allSatisfy { $0 == 200 })
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `a server serves an app after it is added to apps.json, and stops after it is removed`()
    async throws
  {
    try await withStage { stage in
      let purchase = try stage.buy("two", in: stage.stores.old)
      #expect(try await stage.validate(purchase).text.contains("wrong_app"))
      // The changed file alone causes the reload, without a signal.
      try stage.write(Stage.both, to: stage.apps)
      try await stage.receiptd.awaitLog(#""reloaded the configuration""#)
      #expect(try await stage.validate(purchase).status == 200)
      try stage.write(Stage.one, to: stage.apps)
      try await stage.receiptd.awaitLog(#""reloaded the configuration""#, times: 2)
      #expect(try await stage.validate(purchase).text.contains("wrong_app"))
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `a reload refuses an invalid configuration with its reason and keeps the former one`()
    async throws
  {
    try await withStage { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      let broken = Stage.one.replacing(#""rank": 1"#, with: #""rang": 1"#)
      for (number, text) in [broken, "{", "", Stage.one + "x"].enumerated() {
        try stage.write(text, to: stage.apps)
        stage.receiptd.signal(SIGHUP)
        try await stage.receiptd.awaitLog("was not reloaded", times: number + 1)
        #expect(try await stage.validate(purchase).status == 200)
      }
      try stage.write("no certificate", to: stage.root)
      stage.receiptd.signal(SIGHUP)
      try await stage.receiptd.awaitLog("was not reloaded", times: 5)
      #expect(try await stage.validate(purchase).status == 200)
      let log = stage.receiptd.logText
      let line = try #require(log.split(separator: "\n").first { $0.contains("was not reloaded") })
      #expect(line.contains("apps.json"))
      #expect(line.contains("rang"))
      #expect(await stage.readiness() == 200)
      #expect(await stage.receiptd.stop() == 0)
    }
  }

  @Test func `a server that reloads a changed root accepts only proofs under the new root`() async throws {
    try await withStage { stage in
      let old = try stage.buy("one", in: stage.stores.old)
      let new = try stage.buy("one", in: stage.stores.new)
      #expect(try await stage.validate(old).status == 200)
      #expect(try await stage.validate(new).text.contains("invalid_signature"))
      try Data(stage.stores.new.identity.authority.rootDER).write(to: stage.root, options: .atomic)
      try await stage.receiptd.awaitLog(#""reloaded the configuration""#)
      #expect(try await stage.validate(new).status == 200)
      #expect(try await stage.validate(old).text.contains("invalid_signature"))
      #expect(await stage.receiptd.stop() == 0)
    }
  }
}
