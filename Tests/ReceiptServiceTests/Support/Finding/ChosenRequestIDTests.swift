import Actions
import Curl
import Foundation
import HTTPTypes
import Subscriptions
import Testing

@testable import ReceiptService
@testable import Support

/// Clients choose their `X-Request-ID`.
@Suite struct ChosenRequestIDTests {
  @Test(arguments: ["MSTRANGER1", "2000000000004711", "5f1c0d52-7b1e-4b7e-9a51-0c2b4f6a8e01"])
  func `a refused request is not found under a request id that has the form of another id`(id: String)
    async throws
  {
    try await withHarness { harness in
      try await harness.isRefused("MALLORY", requestID: id)
      #expect(try await harness.desk.find(id).search.isEmpty)
    }
  }

  @Test func `a customer's id in another case wins over a request id that a client chose`() async throws {
    try await withHarness { harness in
      try await harness.device(named: "KIMS-PHONE")
      try await harness.isRefused("MALLORY", requestID: "kims-phone")
      let found = try await harness.desk.find("kims-phone")
      #expect(found.search.customers == [CustomerSearch.Match(.device("KIMS-PHONE"), of: TestApps.family)])
      #expect(found.search.kinds == [.device])
    }
  }

  @Test func `a refused request whose chosen id is the device's makes the device no customer`() async throws {
    try await withHarness { harness in
      try await harness.isRefused("PHANTOM", requestID: "PHANTOM")
      let ada = try #require(Harness.ada)
      let refused = try await refusal {
        _ = try await harness.desk.grant(
          to: "PHANTOM", bundleID: TestApps.family, tier: "family", days: 9, by: ada)
      }
      #expect(refused == .notFound)
    }
  }
}

extension Harness {
  /// Posts a request of a device, under a request id that the client chose, that is refused.
  fileprivate func isRefused(_ device: String, requestID: String) async throws {
    let body = #"{"transactionID": "1", "deviceID": "\#(device)", "bundleID": "\#(TestApps.family)"}"#
    let response = try await http.send(
      CurlRequest(
        method: .post, url: "http://\(address)/api/v1/subscriptions/validate",
        headers: [.contentType: "application/json", try #require(HTTPField.Name("X-Request-ID")): requestID],
        body: Array(body.utf8)))
    #expect(response.status == 404)
    try await service.sharedResources.refusedAttempts.flush()
    #expect(try await count("refused_attempts") == 1)
  }
}
