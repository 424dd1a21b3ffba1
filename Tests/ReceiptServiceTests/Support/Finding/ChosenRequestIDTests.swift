import Curl
import HTTPTypes
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
      let body = #"{"transactionID": "1", "deviceID": "MALLORY", "bundleID": "\#(TestApps.family)"}"#
      let response = try await harness.http.send(
        CurlRequest(
          method: .post, url: "http://\(harness.address)/api/v1/subscriptions/validate",
          headers: [.contentType: "application/json", try #require(HTTPField.Name("X-Request-ID")): id],
          body: Array(body.utf8)))
      #expect(response.status == 404)
      try await harness.service.sharedResources.refusedAttempts.flush()
      #expect(try await harness.count("refused_attempts") == 1)
      #expect(try await harness.desk.find(id).search.isEmpty)
    }
  }
}
