import Postgres
import Testing
import Work

@testable import ReceiptService

@Suite struct DoctorCollationTests {
  @Test(arguments: [
    ("C", "c", false), ("C.UTF-8", "c", false), ("C.utf8", "c", false), ("POSIX", "c", false),
    ("C.UTF-8", "b", false), ("en_US.UTF-8", "c", true), ("de_DE.utf8", "c", true), ("C", "i", true),
  ])
  func `the doctor warns of a database that compares texts by a language's rules`(
    collation: String, provider: String, warns: Bool
  ) {
    let result = Doctor.check(collation: collation, provider: provider)
    #expect(result.isOK)
    #expect(result.isWarning == warns)
  }

  @Test func `the doctor reads the collation of the database`() async throws {
    try await withHarness { harness in
      let doctor = Doctor(environment: harness.environment, clock: .system)
      let stored = try await harness.pool.query(
        "SELECT datcollate::text AS name FROM pg_database WHERE datname = current_database()")[0]
      let result = try await doctor.collation(harness.pool)
      #expect(result.message.contains(try stored.decode("name", as: String.self)))
    }
  }
}
