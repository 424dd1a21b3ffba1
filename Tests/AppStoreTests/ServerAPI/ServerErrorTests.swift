import Foundation
import HTTPTypes
import JWTKit
import Testing

@testable import AppStore

struct ServerErrorTests {
  private func rejection(_ answer: StubTransport.Answer) async throws -> (
    AppStoreServerError, AppStoreServerError.Rejection
  ) {
    let api = AppStoreServerAPI(
      transport: StubTransport { _ in answer },
      credentials: try AppStoreCredentials(
        privateKey: ES256PrivateKey().pemRepresentation, keyID: "KEY", issuerID: "ISSUER"),
      bundleID: "com.example.app", clock: HandDrivenClock(jumps: true).storeClock)
    do throws(AppStoreServerError) {
      _ = try await api.transactionInfo("1", in: .production)
    } catch {
      guard case .rejected(let rejection) = error else { throw error }
      return (error, rejection)
    }
    throw CancellationError()
  }

  @Test(arguments: Codes.all)
  func `every App Store error code is decoded to its name`(code: AppStoreErrorCode, number: Int64)
    async throws
  {
    let (error, rejection) = try await rejection(.error(number))
    #expect(rejection.code == code)
    #expect(rejection.status == Int(number / 10_000))
    #expect(rejection.message == "As Apple says it.")
    #expect(error.code == code)
    let retryable: [Int64] = [4_040_002, 4_040_004, 4_040_006, 4_290_000, 5_000_000, 5_000_001]
    #expect(error.isRetryable == retryable.contains(number))
  }

  @Test func `an unknown App Store error code is kept and not retried`() async throws {
    let (error, rejection) = try await rejection(.error(4_049_999))
    #expect(rejection.code == AppStoreErrorCode(rawValue: 4_049_999))
    #expect(!error.isRetryable)
  }

  @Test func `Retry-After of the App Store is parsed as a UNIX time in milliseconds`() async throws {
    var answer = StubTransport.Answer.error(4_290_000)
    answer.fields[.retryAfter] = "1698148900123"
    #expect(try await rejection(answer).1.retryAfter == Date(timeIntervalSince1970: 1_698_148_900.123))
    for text in ["", "soon", "-1", "+5", "1.5", "1698148900123000", "9999999999999999999999"] {
      answer.fields[.retryAfter] = text
      #expect(try await rejection(answer).1.retryAfter == nil, "\(text)")
    }
  }

  @Test(arguments: [
    (500, true), (502, true), (503, true), (429, true), (404, false), (400, false), (403, false),
    (302, false),
  ])
  func `an App Store error without its JSON is classified by its status`(status: Int, isRetryable: Bool)
    async throws
  {
    for body in ["", "<html>", "{}", #"{"errorCode":"4040010"}"#, "null"] {
      let (error, rejection) = try await rejection(.init(status: .init(code: status), body: body))
      #expect(rejection.code == nil)
      #expect(rejection.status == status)
      #expect(error.isRetryable == isRetryable)
    }
  }

  @Test func `a 401 response with JSON is a rejection by the App Store`() async throws {
    let (error, rejection) = try await rejection(.error(4_010_000))
    #expect(rejection.status == 401)
    #expect(!error.isRetryable)
  }
}
