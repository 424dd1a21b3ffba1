import Foundation
import HTTPTypes
import Testing

/// The response of validate as old builds of ScreenTime Rewards decode it.
struct OldBuildResponse: Decodable {
  struct Subscription: Decodable {
    enum Tier: String, Decodable { case individual, family, free }
    enum Status: String, Decodable { case trial, active, grace, expired, cancelled }

    var tier: Tier
    var status: Status
    var expiryDate: String
    var autoRenewEnabled: Bool
  }

  var success: Bool
  var subscription: Subscription?
}

extension Harness {
  /// The request of an old build: a bare transaction id and a device id.
  func oldBuildRequest(_ device: String, _ transactionID: String) async throws -> Answer {
    try await send(
      .post, "/api/v1/subscriptions/validate",
      json: #"{"transactionID": "\#(transactionID)", "deviceID": "\#(device)"}"#)
  }

  /// The purchase as an old build reads it from a 200 response.
  func oldBuild(
    _ device: String = "ABC123-DEF456", validates transactionID: String
  ) async throws -> OldBuildResponse.Subscription {
    let answer = try await oldBuildRequest(device, transactionID)
    #expect(answer.status == 200)
    let response = try JSONDecoder().decode(OldBuildResponse.self, from: Data(answer.body))
    #expect(response.success)
    let subscription = try #require(response.subscription)
    // What `ISO8601DateFormatter` reads without options.
    #expect(ISO8601DateFormatter().date(from: subscription.expiryDate) != nil)
    return subscription
  }
}
