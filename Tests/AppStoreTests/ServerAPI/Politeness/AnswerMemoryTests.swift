import Foundation
import Testing

@testable import AppStore

struct AnswerMemoryTests {
  private let date = Date(timeIntervalSince1970: 1_750_000_000)

  private func question(_ number: Int) -> Question { Question(environment: .production, path: "/\(number)") }

  private func success(_ length: Int = 10) -> ServerAnswer {
    .success(ServerSuccess(status: 200, body: Array(repeating: 0x20, count: length)))
  }

  private func rejected(_ code: Int64?, status: Int? = nil) -> ServerAnswer {
    .failure(
      .rejected(
        .init(
          status: status ?? Int((code ?? 0) / 10_000), code: code.map { .init(rawValue: $0) }, message: nil,
          retryAfter: nil)))
  }

  @Test func `an answer is remembered for three seconds, or for less if the asker wants`() {
    var memory = AnswerMemory()
    memory.remember(success(), to: question(1), at: date)
    #expect(memory.answer(to: question(1), at: date + 2.9, maximumAge: 100) != nil)
    #expect(memory.answer(to: question(1), at: date + 3, maximumAge: 100) == nil)
    #expect(memory.answer(to: question(1), at: date + 1, maximumAge: 1) == nil)
    #expect(memory.answer(to: question(1), at: date, maximumAge: 0) == nil)
    #expect(memory.answer(to: question(1), at: date - 1, maximumAge: 100) == nil)
    #expect(memory.answer(to: question(2), at: date, maximumAge: 100) == nil)
    let elsewhere = Question(environment: .sandbox, path: "/1")
    #expect(memory.answer(to: elsewhere, at: date, maximumAge: 100) == nil)
  }

  @Test func `found and not found are remembered, failures are not`() {
    struct Cut: Error {}
    #expect(rejected(4_040_010).isLasting)
    #expect(rejected(4_000_006).isLasting)
    #expect(ServerAnswer.failure(.unauthorizedWithoutJSON).isLasting)
    for answer: ServerAnswer in [
      rejected(4_040_002), rejected(4_290_000), rejected(5_000_000), rejected(5_000_001),
      rejected(nil, status: 404), rejected(nil, status: 502), .failure(.transport(Cut())),
      .failure(.undecodableAnswer(status: 200, detail: "")), .failure(.overloaded(retryAfter: .zero)),
      .failure(.circuitOpen(retryAfter: .zero)),
    ] {
      #expect(!answer.isLasting)
      var memory = AnswerMemory()
      memory.remember(answer, to: question(1), at: date)
      #expect(memory.count == 0)
    }
  }

  @Test func `the oldest answers go first where there are too many, too long, or too old ones`() {
    var memory = AnswerMemory(maximumCount: 3, maximumBytes: 800)
    for number in 0..<5 { memory.remember(success(), to: question(number), at: date) }
    #expect(memory.count == 3)
    #expect(memory.answer(to: question(1), at: date, maximumAge: 3) == nil)
    #expect(memory.answer(to: question(4), at: date, maximumAge: 3) != nil)
    memory.remember(success(101), to: question(5), at: date)
    #expect(memory.answer(to: question(5), at: date, maximumAge: 3) == nil)
    memory.remember(success(), to: question(6), at: date + 4)
    #expect(memory.count == 1)
    #expect(memory.bytes == 10)

    var small = AnswerMemory(maximumCount: 100, maximumBytes: 800)
    for number in 0..<9 { small.remember(success(100), to: question(number), at: date) }
    #expect(small.count == 8)
    #expect(small.bytes == 800)
    small.remember(success(50), to: question(8), at: date)
    #expect(small.bytes == 750)
    small.forget()
    #expect(small.count == 0 && small.bytes == 0)
  }
}
