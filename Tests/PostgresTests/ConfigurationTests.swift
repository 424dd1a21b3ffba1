import Postgres
import TestDatabase
import Testing

struct ConfigurationTests {
  @Test(arguments: [
    "postgresql://user:s3cret@localhost/db", "postgres://h1:1,h2:2/db?target_session_attrs=read-write",
    "host=localhost dbname=db", "postgresql://%2Frun%2Fpostgresql/db",
    "postgresql://user:s%2F3%40@h1,h2:2/db",
    "host=@abstract dbname=db",
  ])
  func `the configuration accepts every URI that libpq accepts`(uri: String) throws {
    _ = try PostgresConfiguration(uri: uri)
  }

  @Test(arguments: [
    ("postgresql://user:s3cret%zz@localhost/db", "invalid percent-encoded token"),
    ("postgresql://user:s3cret@localhost/db?sslmod=require", #"invalid URI query parameter: "sslmod""#),
    ("s3cret", #"missing "=" after"#),
    ("host=localhost s3cret=1", "invalid connection option"),
    ("postgresql://user:s3cret/more@localhost:5432/db", "its port is not a number"),
    ("postgresql://user:p@s3cret@localhost:5432/db", "its host has an '@'"),
  ])
  func `the configuration refuses a URI with libpq's reason and without the password`(
    uri: String, reason: String
  ) {
    do {
      _ = try PostgresConfiguration(uri: uri)
      Issue.record("\(uri) was accepted")
    } catch {
      #expect("\(error)".contains("the connection URI is wrong"))
      if !uri.hasPrefix("s3cret") { #expect("\(error)".contains(reason), "\(error)") }
      if !uri.contains("s3cret=") { #expect(!"\(error)".contains("s3cret"), "\(error)") }
    }
  }

  @Test func `a session gets the URI's options and receiptd's own, or the URI's alone behind a pooler`()
    async throws
  {
    try await withTestDatabase { database in
      let uri = database.uri + "?options=-c%20work_mem%3D1MB%20-c%20lock_timeout%3D7s"
      for (isPooled, silence) in [(false, "10s"), (true, "0")] {
        let settings = try await TestDatabase(uri: uri).withPool {
          $0.queryTimeout = .seconds(10)
          $0.setsOptions = !isPooled
        } _: {
          try await $0.query(
            """
            select current_setting('work_mem'), current_setting('lock_timeout'),
              current_setting('idle_in_transaction_session_timeout')
            """)
        }
        let texts = try (0..<3).map { try settings[0].decode($0, as: String.self) }
        #expect(texts == ["1MB", "7s", silence])
      }
      // An option in the URI overrides the default.
      let own = TestDatabase(uri: database.uri + "?options=-cidle_in_transaction_session_timeout%3D5s")
      let silence = try await own.withPool {
        try await $0.query("select current_setting('idle_in_transaction_session_timeout')")
      }
      #expect(try silence[0].decode(0, as: String.self) == "5s")
    }
  }
}
