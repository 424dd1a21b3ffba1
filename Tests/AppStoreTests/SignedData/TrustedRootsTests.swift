import Foundation
import SwiftASN1
import Testing
import X509

@testable import AppStore

struct TrustedRootsTests {
  @Test func `trusted roots are read from DER, PEM, and PEM with several certificates`() throws {
    let first = TestAuthority.shared.root
    let second = TestAuthority(name: "Second Root").root
    let pem = try first.serializeAsPEM().pemString + "\n" + second.serializeAsPEM().pemString
    let roots = try TrustedRoots(files: [first.der, Array(pem.utf8)])
    #expect(roots.certificates == [first, first, second])
    #expect(roots.fingerprints[0] == roots.fingerprints[1])
    #expect(roots.fingerprints[0] != roots.fingerprints[2])
  }

  @Test func `a root file without a certificate is refused`() throws {
    let key = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
    let der = try TestAuthority.shared.root.der
    for files: [[UInt8]] in [[], [[]], [[0x30, 0x00]], [Array("text".utf8)], [Array(key.utf8)], [der + [0]]] {
      #expect(throws: TrustedRoots.ReadingFailure.self) { try TrustedRoots(files: files) }
    }
  }
}
