import Foundation
import Testing

@testable import AppStore

struct ResponseCacheTests {
  private let date = Date(timeIntervalSince1970: 1_750_000_000)

  private func request(_ number: Int) -> RequestKey {
    RequestKey(environment: .production, path: "/\(number)")
  }

  private func success(_ length: Int = 10) -> ServerResult {
    .success(ServerSuccess(status: 200, body: Array(repeating: 0x20, count: length)))
  }

  private func rejected(_ code: Int64?, status: Int? = nil) -> ServerResult {
    .failure(
      .rejected(
        .init(
          status: status ?? Int((code ?? 0) / 10_000), code: code.map { .init(rawValue: $0) }, message: nil,
          retryAfter: nil)))
  }

  @Test func `an App Store response is cached for three seconds, or for less if the caller asks so`() {
    var cache = ResponseCache()
    cache.insert(success(), for: request(1), at: date)
    #expect(cache.result(of: request(1), at: date + 2.9, maximumAge: 100) != nil)
    #expect(cache.result(of: request(1), at: date + 3, maximumAge: 100) == nil)
    #expect(cache.result(of: request(1), at: date + 1, maximumAge: 1) == nil)
    #expect(cache.result(of: request(1), at: date, maximumAge: 0) == nil)
    #expect(cache.result(of: request(1), at: date - 1, maximumAge: 100) == nil)
    #expect(cache.result(of: request(2), at: date, maximumAge: 100) == nil)
    let elsewhere = RequestKey(environment: .sandbox, path: "/1")
    #expect(cache.result(of: elsewhere, at: date, maximumAge: 100) == nil)
  }

  @Test func `found and not found are cached, and failures are not`() {
    struct Cut: Error {}
    #expect(rejected(4_040_010).isCacheable)
    #expect(rejected(4_000_006).isCacheable)
    #expect(ServerResult.failure(.unauthorizedWithoutJSON).isCacheable)
    for result: ServerResult in [
      rejected(4_040_002), rejected(4_290_000), rejected(5_000_000), rejected(5_000_001),
      rejected(nil, status: 404), rejected(nil, status: 502), .failure(.transport(Cut())),
      .failure(.undecodableAnswer(status: 200, detail: "")), .failure(.overloaded(retryAfter: .zero)),
      .failure(.circuitOpen(retryAfter: .zero)),
    ] {
      #expect(!result.isCacheable)
      var cache = ResponseCache()
      cache.insert(result, for: request(1), at: date)
      #expect(cache.count == 0)
    }
  }

  @Test func `the response cache evicts its oldest entries when entries are too many, too long or too old`() {
    var cache = ResponseCache(maximumCount: 3, maximumBytes: 800)
    for number in 0..<5 { cache.insert(success(), for: request(number), at: date) }
    #expect(cache.count == 3)
    #expect(cache.result(of: request(1), at: date, maximumAge: 3) == nil)
    #expect(cache.result(of: request(4), at: date, maximumAge: 3) != nil)
    cache.insert(success(101), for: request(5), at: date)
    #expect(cache.result(of: request(5), at: date, maximumAge: 3) == nil)
    cache.insert(success(), for: request(6), at: date + 4)
    #expect(cache.count == 1)
    #expect(cache.bytes == 10)

    var small = ResponseCache(maximumCount: 100, maximumBytes: 800)
    for number in 0..<9 { small.insert(success(100), for: request(number), at: date) }
    #expect(small.count == 8)
    #expect(small.bytes == 800)
    small.insert(success(50), for: request(8), at: date)
    #expect(small.bytes == 750)
    small.removeAll()
    #expect(small.count == 0 && small.bytes == 0)
  }
}
