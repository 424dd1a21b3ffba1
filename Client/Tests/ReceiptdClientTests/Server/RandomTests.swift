import Foundation
import Testing

@testable import ReceiptdClient

extension ServerTests {
  /// Client, server and App Store live random lives together; `CLIENT_LIVES` is their number, `CLIENT_SEED` the first seed.
  @Test func `random lives show the store's truth, or what the offline rule allows, and lose nothing`()
    async throws
  {
    let stage = try await Stage.shared()
    let environment = ProcessInfo.processInfo.environment
    let count = environment["CLIENT_LIVES"].flatMap { UInt64($0) } ?? 40
    let first = environment["CLIENT_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0..<1_000_000)
    let run = String(UUID().uuidString.prefix(8))
    var world = Seeded(first)
    var failures = 0
    for start in stride(from: first, to: first + count, by: 200) {
      var lives = (start..<min(start + 200, first + count)).map { Life($0, run: run, stage) }
      func each(_ body: @escaping @Sendable (Life) async throws -> Void) async {
        let broken = await withTaskGroup(of: (UInt64, (any Error)?).self) { group in
          var waiting = lives.makeIterator()
          var broken: [UInt64: any Error] = [:]
          func next() {
            guard let life = waiting.next() else { return }
            group.addTask {
              do {
                try await body(life)
                return (life.seed, nil)
              } catch {
                return (life.seed, error)
              }
            }
          }
          for _ in 0..<8 { next() }
          for await (seed, error) in group {
            if let error { broken[seed] = error }
            next()
          }
          return broken
        }
        for life in lives {
          guard let error = broken[life.seed] else { continue }
          failures += 1
          Issue.record("seed \(life.seed): \(error)\n\(life.history.joined(separator: "\n"))")
        }
        lives.removeAll { broken[$0.seed] != nil }
      }
      await each { try await $0.begin() }
      for _ in 0..<12 {
        try stage.advance(days: Double.random(in: 0.05...9, using: &world))
        await each { try await $0.step() }
      }
      for _ in 0..<4 {
        try stage.advance(seconds: 3600)
        await each { try await $0.settle() }
      }
      await each { try await $0.end() }
      #expect(failures == 0)
    }
  }

  /// A thousand clients lose the server for a minute. The clock is the stage's, so minutes pass at once; the requests go to the
  /// real server.
  @Test func `after an outage of a minute a thousand clients do not come back at once`() async throws {
    let stage = try await Stage.shared()
    let phones = (0..<(ProcessInfo.processInfo.environment["CLIENT_HERD"].flatMap { Int($0) } ?? 1000)).map {
      _ in
      Phone(stage, Stage.heatlab)
    }
    let sent = Protected<[TimeInterval]>([])
    let isDown = Protected(false)
    let statuses = Protected<[Int: Int]>([:])
    let start = stage.now
    struct Counted: Transport {
      let wire: URLSessionTransport
      let stage: Stage
      let sent: Protected<[TimeInterval]>
      let isDown: Protected<Bool>
      let statuses: Protected<[Int: Int]>
      func send(_ request: TransportRequest) async throws -> TransportResponse {
        sent.with { $0.append(stage.now.timeIntervalSince1970) }
        if isDown.with({ $0 }) { throw URLError(.cannotConnectToHost) }
        let response = try await wire.send(request)
        statuses.with { $0[response.status, default: 0] += 1 }
        return response
      }
    }
    let transport = Counted(
      wire: URLSessionTransport(), stage: stage, sent: sent, isDown: isDown, statuses: statuses)
    var clients: [Receiptd<[String: Life.FeatureWord]>] = []
    var keys: Data?
    for (number, phone) in phones.enumerated() {
      var configuration = ReceiptdConfiguration(server: stage.address, bundleID: Stage.heatlab)
      configuration.transport = transport
      if let keys { phone.store.write(keys, for: StoreKeys.keySet) }
      configuration.store = phone.store
      configuration.queues = phone.queues
      configuration.clock = phone.clock
      configuration.refreshInterval = 60
      let random = Protected(Seeded(UInt64(number)))
      configuration.random = { random.with { Double.random(in: 0..<1, using: &$0) } }
      let client = Receiptd<[String: Life.FeatureWord]>(configuration, free: [:])
      await client.enter(.device("herd-\(number)-\(start.timeIntervalSince1970)"))
      clients.append(client)
      if keys == nil {
        _ = await client.step()
        keys = phone.store.read(StoreKeys.keySet)
      }
    }
    // Each client's next step, in the stage's time. They start within a minute.
    var due = clients.indices.map { number in
      start.timeIntervalSince1970 + 1 + Double(number) * 60 / Double(clients.count)
    }
    func run(until end: TimeInterval) async throws {
      while let number = due.indices.min(by: { due[$0] < due[$1] }), due[number] < end {
        let ahead = due[number] - stage.now.timeIntervalSince1970
        if ahead > 0 { try stage.advance(seconds: ahead) }
        let wait = await clients[number].step()
        due[number] = stage.now.timeIntervalSince1970 + wait
      }
    }
    // The virtual time is never behind the real one, so on a slow machine the usual rate is lower than planned; the peak is
    // compared with what was measured.
    let began = start.timeIntervalSince1970 + 120
    try await run(until: began)
    let measured = began + 60
    try await run(until: measured)
    let down = stage.now.timeIntervalSince1970
    isDown.with { $0 = true }
    try await run(until: down + 60)
    isDown.with { $0 = false }
    let back = stage.now.timeIntervalSince1970
    try await run(until: back + 240)
    func peak(_ range: ClosedRange<TimeInterval>) -> Double {
      let times = sent.with { $0 }.filter { range.contains($0) }
      return Double(
        Dictionary(grouping: times) { Int(($0 - range.lowerBound) / 5) }.values.map(\.count).max() ?? 0) / 5
    }
    let usual = Double(sent.with { $0 }.count { (began...measured).contains($0) }) / 60
    let after = peak(back...(back + 240))
    #expect(clients.allSatisfy { $0.current.source != .none })
    #expect(clients.count { $0.current.source == .server } >= clients.count * 99 / 100)
    #expect(usual > Double(clients.count) / 60 / 2)
    #expect(after < 3 * usual, "\(after) a second after the return, usually \(usual)")
    if environmentNamesHerd {
      let times = sent.with { $0 }
      for second in stride(from: -180.0, to: 240, by: 10) {
        print("herd \(second): \(times.count { $0 >= back + second && $0 < back + second + 10 })")
      }
      print(
        "herd: \(statuses.with { $0 }); usually \(usual) requests a second, at most \(peak(began...measured)); after the return at most \(after)"
      )
    }
  }

  private var environmentNamesHerd: Bool { ProcessInfo.processInfo.environment["CLIENT_HERD"] != nil }
}
