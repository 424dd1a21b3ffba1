import Foundation
import Platform
import Postgres
import TestDatabase
import Testing

/// Round trips of values through the server.
struct TypeTests {
  /// Sends each value through a column of a type and expects it back.
  private func expectRoundTrip<T: PostgresEncodable & PostgresDecodable & Equatable & Sendable>(
    _ values: [T], as type: String, _ isSame: (T, T) -> Bool = { $0 == $1 }
  ) async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        _ = try await pool.query("create table t (v \(unescaped: type))")
        for value in values {
          let rows = try await pool.query("insert into t values (\(value)) returning v")
          let back = try rows[0].decode("v", as: T.self)
          #expect(isSame(back, value), "\(value) came back as \(back)")
        }
      }
    }
  }

  @Test func `integers survive a round trip`() async throws {
    try await expectRoundTrip([0, 1, -1, .max, .min, 1 << 40] as [Int], as: "bigint")
    try await expectRoundTrip([0, -7, .max, .min] as [Int32], as: "integer")
    try await expectRoundTrip([0, -7, 32767, -32768] as [Int64], as: "smallint")
    try await expectRoundTrip([0, 1, -1, .max, .min, 10000, 100_000_000] as [Int], as: "numeric")
  }

  @Test func `doubles survive a round trip`() async throws {
    let values = [0, -0.0, 0.1, -1e300, .pi, .infinity, -.infinity, .leastNonzeroMagnitude]
    try await expectRoundTrip(values + [.nan], as: "double precision") {
      $0.bitPattern == $1.bitPattern || ($0.isNaN && $1.isNaN)
    }
  }

  @Test func `text of every script survives a round trip`() async throws {
    var generator = SplitMix64(state: 1)
    var values = [
      "", " ", "ÄÖÜ ß", "日本語", "🧗🏽‍♀️ e\u{301}", "a'b\"c\\d", "\u{1}\u{7f}\n\t\r", "{null}", "\u{10FFFF}",
    ]
    values += (0..<200).map { _ in String.random(length: 40, &generator) }
    try await expectRoundTrip(values, as: "text")
    try await expectRoundTrip([values], as: "text[]")
  }

  @Test func `booleans, UUIDs and JSON survive a round trip`() async throws {
    try await expectRoundTrip([true, false, nil], as: "boolean")
    try await expectRoundTrip([UUID(), UUID(), nil], as: "uuid")
    try await expectRoundTrip([JSONText(#"{"a": [1, null, "ü"]}"#), nil], as: "jsonb")
    // The value is bound as jsonb, so a json column gets jsonb's formatting.
    try await expectRoundTrip([JSONText(#"{"a": 2, "b": 1}"#)], as: "json")
  }

  @Test func `instants survive a round trip to the microsecond`() async throws {
    var generator = SplitMix64(state: 2)
    // Apple sends milliseconds since 1970, which must survive as the same Double.
    let milliseconds = (0..<200).map { _ in
      Date(timeIntervalSince1970: Double(Int64.random(in: 0...4_102_444_800_000, using: &generator)) / 1000)
    }
    try await expectRoundTrip(milliseconds, as: "timestamptz")
    let any = (0..<200).map { _ in
      Date(timeIntervalSinceReferenceDate: .random(in: -3e9...3e9, using: &generator))
    }
    try await expectRoundTrip(any, as: "timestamptz") { abs($0.timeIntervalSince($1)) < 1e-6 }
  }

  @Test func `an instant cut to microseconds survives a round trip and is never later than the original`()
    async throws
  {
    var generator = SplitMix64(state: 3)
    let any = (0..<200).map { _ in Date(timeIntervalSince1970: .random(in: 0...4e9, using: &generator)) }
    let cut = any.map(\.cutToMicroseconds)
    try await expectRoundTrip(cut, as: "timestamptz")
    for (cut, date) in zip(cut, any) {
      #expect(cut <= date && date.timeIntervalSince(cut) < 2e-6)
      #expect(cut.cutToMicroseconds == cut)
    }
    for endless in [Double.infinity, -.infinity] {
      #expect(Date(timeIntervalSince1970: endless).cutToMicroseconds.timeIntervalSince1970 == endless)
    }
  }

  @Test func `the server reads an instant as the same timestamptz, and infinity is an error`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let date = Date(timeIntervalSince1970: 1_768_780_800.25)
        let rows = try await pool.query(
          "select \(date) = '2026-01-19T00:00:00.25Z'::timestamptz as same, 'infinity'::timestamptz as never")
        let row = try #require(rows.first)
        #expect(try row.decode("same", as: Bool.self))
        #expect(throws: PostgresError.self) { try row.decode("never", as: Date.self) }
      }
    }
  }

  @Test func `bytes survive a round trip`() async throws {
    let all = [UInt8](0...255)
    let large = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    try await expectRoundTrip([[], [0], all, large], as: "bytea")
    try await expectRoundTrip([Data(all), Data()], as: "bytea")
    try await expectRoundTrip([[[], [0, 0], all] as [[UInt8]]], as: "bytea[]")
  }

  @Test func `arrays survive a round trip, with and without NULL`() async throws {
    try await expectRoundTrip([[], ["a", "", "NULL", "{,}", "\"\\"]] as [[String]], as: "text[]")
    try await expectRoundTrip([[nil, "a", nil], [nil]] as [[String?]], as: "text[]")
    try await expectRoundTrip([[1, .min, .max], []] as [[Int]], as: "bigint[]")
    try await expectRoundTrip([[1, nil, -1]] as [[Int32?]], as: "integer[]")
    try await expectRoundTrip([[1.5, nil]] as [[Double?]], as: "double precision[]")
    try await expectRoundTrip([[true, nil, false]] as [[Bool?]], as: "boolean[]")
    try await expectRoundTrip([[UUID(), nil]] as [[UUID?]], as: "uuid[]")
    try await expectRoundTrip([[Date(timeIntervalSince1970: 1.5), nil]] as [[Date?]], as: "timestamptz[]")
    try await expectRoundTrip([[JSONText("[]"), nil]] as [[JSONText?]], as: "jsonb[]")
    try await expectRoundTrip([["a"], nil] as [[String]?], as: "text[]")
  }

  @Test func `a statement can unnest arrays into rows`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let ids = [UUID(), UUID()]
        let rows = try await pool.query(
          """
          select * from unnest(\(ids), \(["a", nil] as [String?])::text[], \([1, 2]))
            as t(id, name, number) order by number
          """)
        #expect(try rows.map { try $0.decode("id", as: UUID.self) } == ids)
        #expect(try rows.map { try $0.decode("name", as: String?.self) } == ["a", nil])
      }
    }
  }

  @Test(arguments: [
    "0", "1", "-1", "12345678901234567890", "0.0001", "-0.5", "10000", "1.10", "99999999.99999999",
    "0.00000000001", "123456789012345.678901234500", "NaN", "1e20", "100000000000000000000.000001",
  ])
  func `a numeric is decoded to the server's text of it`(number: String) async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query("select \(number)::numeric as n, \(number)::numeric::text as t")
        let row = try #require(rows.first)
        let expected = try row.decode("t", as: String.self)
        #expect(try row.decode("n", as: String.self) == expected)
      }
    }
  }

  @Test func `a string or an integer can be bound to a column of another type`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        _ = try await pool.query("create type mood as enum ('happy', 'sad')")
        _ = try await pool.query(
          "create table t (id uuid, mood mood, day date, small smallint, price numeric)")
        let id = UUID()
        let rows = try await pool.query(
          """
          insert into t values (\(id.uuidString), \("sad"), \("2026-01-19"), \(7), \(4.99))
          returning id, mood, day::text as day, small, price
          """)
        let row = try #require(rows.first)
        #expect(try row.decode("id", as: UUID.self) == id)
        #expect(try row.decode("id", as: String.self) == id.uuidString.lowercased())
        #expect(try row.decode("mood", as: String.self) == "sad")
        #expect(try row.decode("mood", as: Mood.self) == .sad)
        #expect(try row.decode("day", as: String.self) == "2026-01-19")
        #expect(try row.decode("small", as: Int.self) == 7)
        #expect(try row.decode("price", as: Double.self) == 4.99)
      }
    }
  }

  private enum Mood: String, PostgresDecodable, PostgresEncodable { case happy, sad }

  @Test func `decoding an integer that does not fit is an error`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query("select 3000000000::bigint as n, 1.5::numeric as f")
        let row = try #require(rows.first)
        #expect(throws: PostgresError.self) { try row.decode("n", as: Int32.self) }
        #expect(throws: PostgresError.self) { try row.decode("f", as: Int.self) }
      }
    }
  }
}

extension String {
  /// Characters from all of Unicode but NUL, which PostgreSQL cannot store.
  static func random(length: Int, _ generator: inout SplitMix64) -> String {
    var text = String.UnicodeScalarView()
    while text.count < length {
      guard let scalar = Unicode.Scalar(UInt32.random(in: 1...0x10FFFF, using: &generator)) else { continue }
      text.append(scalar)
    }
    return String(text)
  }
}
