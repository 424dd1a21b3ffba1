import Postgres
import Testing
import Work

@testable import ReceiptService

@Suite struct DoctorConnectionTests {
  @Test(arguments: [
    ("", false, false), ("127.0.0.1", false, false), ("127.8.0.1", false, false), ("::1", false, false),
    ("10.0.0.5", false, true), ("192.0.2.7", false, true), ("2001:db8::5", false, true),
    ("fd00::5", false, true),
    ("fe80::1%eth0", false, true), ("192.0.2.7", true, false), ("2001:db8::5", true, false),
  ])
  func `the doctor warns of a connection that leaves this machine without encryption`(
    address: String, isEncrypted: Bool, warns: Bool
  ) {
    let result = Doctor.check(peer: PostgresPeer(address: address, isEncrypted: isEncrypted))
    #expect(result.isOK)
    #expect(result.isWarning == warns, "\(result.line)")
    #expect(!warns || result.line.contains("sslmode=verify-full"))
  }

  @Test func `the doctor reads the other end from the connection`() async throws {
    try await withHarness { harness in
      let peer = try await harness.pool.withConnection { $0.peer }
      let stored = try await harness.pool.query(
        """
        SELECT coalesce(host(inet_server_addr()), '') AS address,
          (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS is_encrypted
        """)[0]
      #expect(try stored.decode("address", as: String.self) == peer.address)
      #expect(try stored.decode("is_encrypted", as: Bool.self) == peer.isEncrypted)
      var results: [CheckResult] = []
      _ = await Doctor(environment: harness.environment, clock: .system).check { results.append($0) }
      #expect(results.contains(Doctor.check(peer: peer)))
    }
  }
}
