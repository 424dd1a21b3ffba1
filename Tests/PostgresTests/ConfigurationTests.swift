import Postgres
import Testing

struct ConfigurationTests {
  @Test(arguments: [
    "postgresql://user:s3cret@localhost/db", "postgres://h1:1,h2:2/db?target_session_attrs=read-write",
    "host=localhost dbname=db", "postgresql://%2Frun%2Fpostgresql/db",
  ])
  func `what libpq takes is taken`(uri: String) throws {
    _ = try PostgresConfiguration(uri: uri)
  }

  @Test(arguments: [
    ("postgresql://user:s3cret%zz@localhost/db", "invalid percent-encoded token"),
    ("postgresql://user:s3cret@localhost/db?sslmod=require", #"invalid URI query parameter: "sslmod""#),
    ("s3cret", #"missing "=" after"#),
    ("host=localhost s3cret=1", "invalid connection option"),
  ])
  func `what libpq does not take is refused with its reason, without the password`(
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
}
