import Postgres
import TestDatabase
import Testing

/// The detection of a pooler, with a real PgBouncer.
@Suite(.timeLimit(.minutes(10))) struct PoolerProbeTests {
  /// The pool modes of PgBouncer.
  struct Case: Sendable, CustomTestStringConvertible {
    var mode: PrivatePgBouncer.Mode
    var settings: [String: String]

    var testDescription: String { "\(mode.rawValue) \(settings)" }
  }

  private static let cases = [
    ["server_round_robin": "0"], ["server_round_robin": "1"],
    ["server_round_robin": "0", "default_pool_size": "1"],
    ["server_round_robin": "1", "default_pool_size": "2", "min_pool_size": "2"],
    ["server_round_robin": "0", "default_pool_size": "20", "min_pool_size": "5"],
  ].flatMap { settings in PrivatePgBouncer.Mode.allCases.map { Case(mode: $0, settings: settings) } }

  @Test func `the probe finds no pooler on a direct connection`() async throws {
    try await withTestDatabase { database in
      for _ in 0..<5 {
        let found = try await database.configuration().findPooling()
        #expect(found == .direct)
      }
    }
  }

  @Test(arguments: cases) func `the probe finds PgBouncer and its pool mode`(of pooler: Case) async throws {
    try await withTestDatabase { database in
      let bouncer = try await PrivatePgBouncer.start(
        before: database, in: pooler.mode, settings: pooler.settings)
      let configuration = try PostgresConfiguration(uri: database.uri(port: bouncer.port))
      let expected: Pooling = pooler.mode == .transaction ? .transaction : .session
      for _ in 0..<3 {
        let found = try await configuration.findPooling()
        #expect(found == expected)
      }
      try await bouncer.remove()
    }
  }

  @Test(arguments: PrivatePgBouncer.Mode.allCases)
  func `the probe finds PgBouncer's pool mode while other clients use it`(in mode: PrivatePgBouncer.Mode)
    async throws
  {
    try await withTestDatabase { database in
      let bouncer = try await PrivatePgBouncer.start(before: database, in: mode)
      var configuration = try PostgresConfiguration(uri: database.uri(port: bouncer.port))
      configuration.usesPreparedStatements = false
      configuration.setsOptions = false
      configuration.maximumConnections = 6
      configuration.queryTimeout = .seconds(60)
      configuration.acquireTimeout = .seconds(60)
      let others = PostgresPool(configuration: configuration)
      try await others.warm(6)
      let load = (0..<6).map { _ in
        Task {
          while !Task.isCancelled { _ = try? await others.query("select pg_sleep(random() * 0.01)") }
        }
      }
      let expected: Pooling = mode == .transaction ? .transaction : .session
      for _ in 0..<5 {
        let found = try await configuration.findPooling()
        #expect(found == expected)
      }
      for task in load { task.cancel() }
      for task in load { await task.value }
      await others.close()
      try await bouncer.remove()
    }
  }
}
