import Foundation
import ReceiptdClient

/// A server that cannot be reached, until it sends what a test says.
final class TestServer: Transport {
  /// The response to a request; `nil` for no network.
  let answer: @Sendable (TransportRequest) -> TransportResponse?

  init(_ answer: @escaping @Sendable (TransportRequest) -> TransportResponse?) { self.answer = answer }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    guard let response = answer(request) else { throw URLError(.notConnectedToInternet) }
    return response
  }
}

extension ReceiptdConfiguration {
  /// A configuration for tests: nothing reaches a network or a disk.
  static func test(
    server: URL, _ answer: @escaping @Sendable (TransportRequest) -> TransportResponse?
  ) -> Self {
    var configuration = Self(server: server, bundleID: "com.swiftclimb.app")
    configuration.transport = TestServer(answer)
    configuration.store = MemoryStore()
    configuration.queues = MemoryStore()
    return configuration
  }
}

/// A purchase without a network: it waits, and the customer is not told that it failed.
func purchaseWithoutNetwork(server: URL) async throws -> ReceiptdError? {
  let receiptd = Receiptd(
    .test(server: server) { _ in nil }, free: ClimbingFeatures.free, token: { _ in "the access token" })
  await receiptd.signIn(.user(UUID()))
  do {
    try await receiptd.submit(.signedTransaction("a transaction's jwsRepresentation"))
    return nil
  } catch let error as ReceiptdError {
    return error  // the advice is .retry: run() sends the purchase again
  }
}
