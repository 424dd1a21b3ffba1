import Foundation
import Testing

@testable import AppStore

struct RetryScheduleTests {
  private let date = Date(timeIntervalSince1970: 1_750_000_000)

  private func rejection(
    _ code: Int64?, status: Int? = nil, retryAfter: TimeInterval? = nil
  ) -> AppStoreServerError.Rejection {
    .init(
      status: status ?? Int((code ?? 0) / 10_000), code: code.map { .init(rawValue: $0) }, message: nil,
      retryAfter: retryAfter.map { date + $0 })
  }

  private func pauses(_ error: AppStoreServerError, jitter: Double = 1, most: Int = 20) -> [Duration] {
    var schedule = RetrySchedule()
    return (0..<most).compactMap { _ in schedule.pause(after: error, at: date, jitter: jitter) }
  }

  @Test(arguments: Codes.all)
  func `only App Store errors that Apple calls retryable are retried`(code: AppStoreErrorCode, number: Int64)
  {
    let isTriedAgain = !pauses(.rejected(rejection(number))).isEmpty
    #expect(isTriedAgain == [4_040_002, 4_040_004, 4_040_006, 5_000_000, 5_000_001].contains(number))
  }

  @Test func `the retry delays double up to a bound, with full jitter`() {
    let error = AppStoreServerError.rejected(rejection(5_000_001))
    #expect(
      pauses(error)
        == [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000, 8_000].map { .milliseconds($0) })
    #expect(pauses(error, jitter: 0) == Array(repeating: .zero, count: 10))
    #expect(pauses(error, jitter: 0.5).first == .milliseconds(125))
    #expect(pauses(.rejected(rejection(5_000_000))).first == .seconds(1))
  }

  @Test func `an App Store error without a retryable code is not retried`() {
    struct Cut: Error {}
    for error: AppStoreServerError in [
      .transport(Cut()), .undecodableAnswer(status: 200, detail: ""), .unauthorizedWithoutJSON,
      .transactionNotFound, .invalidArgument("x"), .rejected(rejection(nil, status: 500)),
      .rejected(rejection(nil, status: 503)), .rejected(rejection(nil, status: 404)),
      .overloaded(retryAfter: .zero), .circuitOpen(retryAfter: .zero),
    ] {
      #expect(pauses(error).isEmpty, "\(error)")
    }
  }

  @Test func `a rate limited App Store call is retried only after a plausible Retry-After`() {
    for code in [4_290_000, nil] as [Int64?] {
      #expect(pauses(.rejected(rejection(code, status: 429, retryAfter: 2)), most: 1) == [.zero])
      #expect(pauses(.rejected(rejection(code, status: 429))).isEmpty)
      #expect(pauses(.rejected(rejection(code, status: 429, retryAfter: -1))).isEmpty)
      #expect(pauses(.rejected(rejection(code, status: 429, retryAfter: 3_601))).isEmpty)
    }
  }

  @Test(
    arguments: [
      (nil, .seconds(1), false), (-5, .seconds(1), false), (0, .seconds(1), false),
      (0.5, .milliseconds(500), true), (3_600, .seconds(3_600), true), (3_601, .seconds(60), false),
      (1e12, .seconds(60), false),
    ] as [(TimeInterval?, Duration, Bool)])
  func `an implausible Retry-After pauses an endpoint only briefly`(
    seconds: TimeInterval?, length: Duration, isTold: Bool
  ) {
    let pause = RateLimitPause(rejection(4_290_000, retryAfter: seconds), at: date)
    #expect(pause.length == length)
    #expect(pause.isTold == isTold)
  }
}
