import AppStoreSimulator
import Crypto
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService

/// The header `Receiptd-Device-Secret`: the routes of a device that has a secret need it.
@Suite struct DeviceSecretTests {
  private let phone = ScreenTime.secret(1)
  private let stranger = ScreenTime.secret(2)

  @Test func `after the first use of a device's secret all routes of the device require it`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "a", secret: phone).status == 201)
      for secret in [nil, stranger] {
        let answers = [
          try await harness.children(of: "phone", secret: secret),
          try await harness.pair("child", to: "phone", secret: secret),
          try await harness.unpair("child", from: "phone", secret: secret),
          try await harness.token(of: "phone", secret: secret),
          try await harness.launch("phone", account: "b", secret: secret),
        ]
        for answer in answers {
          #expect(answer.status == 401)
          #expect(answer.code == "unauthenticated")
          #expect(answer.headers[.wwwAuthenticate] == "DeviceSecret")
        }
      }
      #expect(try await harness.launch("phone", account: "a").status == 401)
      #expect(try await harness.pair("child", to: "phone", secret: phone).status == 201)
      #expect(try await harness.children(of: "phone", secret: phone).children == ["child active"])
      #expect(try await harness.unpair("child", from: "phone", secret: phone).children == [])
      #expect(
        try await harness.token(of: "phone", secret: phone).string("entitlements.entitlementToken") != nil)
      #expect(try await harness.launch("phone", account: "a", secret: phone).status == 200)
    }
  }

  @Test func `a device of an old build needs no secret`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone").status == 201)
      #expect(try await harness.pair("child", to: "phone").status == 201)
      #expect(try await harness.children(of: "phone").status == 200)
      #expect(try await harness.token(of: "phone").string("entitlements.entitlementToken") != nil)
      // The secret is not valid for another app's device with the same id.
      let other = try await harness.children(of: "phone", bundleID: ScreenTime.heatlab, secret: phone)
      #expect(other.status == 200)
      #expect(try await harness.children(of: "phone").status == 200)
      #expect(try await harness.children(of: "phone", bundleID: ScreenTime.heatlab).status == 401)
    }
  }

  @Test(arguments: [
    "A", String(repeating: "A", count: 42), String(repeating: "A", count: 44),
    String(repeating: "A", count: 43) + "=", String(repeating: "A", count: 42) + "B",
    String(repeating: "A", count: 42) + "+",
    String(repeating: "A", count: 20) + " "
      + String(repeating: "A", count: 22),
  ])
  func `a malformed device secret gets invalid_request`(_ secret: String) async throws {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let answers = [
        try await harness.children(of: "phone", secret: secret),
        try await harness.pair("child", to: "phone", secret: secret),
        try await harness.unpair("child", from: "phone", secret: secret),
        try await harness.token(of: "phone", secret: secret),
        try await harness.launch("phone", secret: secret),
        try await harness.validate(
          ["signedTransaction": bought.signedTransaction, "deviceID": "phone"], secret: secret),
      ]
      for answer in answers {
        #expect(answer.status == 400)
        #expect(answer.code == "invalid_request")
        #expect(answer.string("detail")?.contains("Receiptd-Device-Secret") == true)
      }
      #expect(try await harness.count("trials") == 0)
      #expect(try await harness.count("subscriptions") == 0)
    }
  }

  @Test func `one of twenty concurrent first secrets of a device is stored`() async throws {
    try await withScreenTime { harness in
      let answers = try await atOnce(20) {
        try await harness.children(of: "phone", secret: ScreenTime.secret(UInt8($0)))
      }
      #expect(answers.count { $0.status == 200 } == 1)
      #expect(answers.count { $0.status == 401 } == 19)
      #expect(try await harness.count("device_secrets") == 1)
    }
  }

  @Test func `the database has only a hash of the device secret, readable by the server's role only`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", secret: phone)
      let rows = try await harness.pool.query("SELECT device_id, secret_hash FROM device_secrets")
      let row = try #require(rows.first)
      #expect(try row.decode("device_id", as: String.self) == "phone")
      #expect(
        try row.decode("secret_hash", as: [UInt8].self)
          == Array(SHA256.hash(data: [UInt8](repeating: 1, count: 32))))
      let readers = try await harness.pool.query(
        """
        SELECT grantee FROM information_schema.role_table_grants
        WHERE table_name = 'device_secrets' AND grantee NOT IN (current_user, 'receiptd_app')
        """
      ).map { try $0.decode("grantee", as: String.self) }
      #expect(readers == [])
    }
  }

  @Test func `support resets a device's secret once, and the reset is recorded`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", secret: phone)
      #expect(try await harness.children(of: "phone").status == 401)
      let reset = try await harness.resetSecret(of: "phone")
      #expect(reset.status == 200)
      #expect(reset.bool("isChanged") == true)
      #expect(try await harness.resetSecret(of: "phone").bool("isChanged") == false)
      let actions = try await harness.actions()
      #expect(actions.map(\.action) == ["reset-device-secret"])
      #expect(actions.map(\.to) == ["phone"])
      #expect(actions.map(\.by) == ["machine for ada"])
      #expect(actions.map(\.reason) == ["ticket 812"])
      #expect(try await harness.children(of: "phone").status == 200)
      #expect(try await harness.resetSecret(of: "phone", bundleID: "none").code == "not_found")
      #expect(try await harness.resetSecret(of: "phone", bundleID: "com.swiftclimb.app").status == 400)
    }
  }
}

extension ScreenTime {
  /// A device secret: 32 bytes of this value.
  static func secret(_ byte: UInt8) -> String {
    Data(repeating: byte, count: 32).base64EncodedString().replacingOccurrences(of: "+", with: "-")
      .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
  }
}

extension Harness {
  /// `GET /api/v1/devices/{deviceID}/entitlements`, with any status.
  func token(of device: String, secret: String? = nil) async throws -> Answer {
    try await send(
      .get, "/api/v1/devices/\(device)/entitlements?bundleID=\(ScreenTime.bundleID)", secret: secret)
  }

  fileprivate func resetSecret(
    of device: String, bundleID: String = ScreenTime.bundleID
  ) async throws -> Answer {
    let members = ["deviceID": device, "bundleID": bundleID, "by": "ada", "reason": "ticket 812"]
    return try await send(
      .post, "/support/v1/reset-device-secret",
      json: String(decoding: JSONEncoder().encode(members), as: UTF8.self), token: Self.supportToken,
      to: adminAddress)
  }
}
