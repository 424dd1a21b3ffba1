import Platform
import Testing

@testable import HTTP

/// Valid and invalid requests with random changes of a few bytes; the seed makes them repeatable.
@Suite struct MutationTests {
  private static let bases =
    (AcceptedRequestTests.all.map(\.bytes) + RefusedRequest.all.map(\.bytes)).filter { $0.count < 500 }
  private static let telling = Array("\r\n\r\n :;,0+-5aFGET\0\t\u{7F}/?%#@[]\"chunked".utf8)

  private static func mutant(_ random: inout SplitMix64) -> [UInt8] {
    var bytes = bases.randomElement(using: &random) ?? []
    for _ in 0..<Int.random(in: 1...4, using: &random) where !bytes.isEmpty {
      let index = Int.random(in: 0..<bytes.count, using: &random)
      let byte = telling.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<5, using: &random) {
      case 0: bytes[index] = byte
      case 1: bytes.insert(byte, at: index)
      case 2: bytes.remove(at: index)
      case 3: bytes.insert(contentsOf: bytes[index..<min(index + 12, bytes.count)], at: index)
      default: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
      }
    }
    return bytes
  }

  @Test(arguments: UInt64(0)..<8)
  func `random bytes give the same result at any split, and a refusal closes the connection`(
    seed: UInt64
  ) {
    var random = SplitMix64(state: seed)
    for _ in 0..<400 {
      let bytes = Self.mutant(&random)
      guard !bytes.isEmpty else { continue }
      var whole = Conversation()
      whole.receive(bytes)
      let requests = whole.events.filter { if case .request = $0 { true } else { false } }.count
      let refusals = whole.events.filter { if case .refused = $0 { true } else { false } }.count
      #expect(whole.answers.count == requests + refusals)
      #expect(refusals <= 1)
      if refusals == 1 { #expect(whole.events.last == .finished) }
      #expect(whole.answers.dropLast().allSatisfy { !$0.closes })

      // 100 Continue depends on the bytes that have arrived, by design.
      var pieces = Conversation()
      var rest = bytes[...]
      while !rest.isEmpty {
        let piece = rest.prefix(Int.random(in: 1...20, using: &random))
        pieces.receive(Array(piece))
        rest = rest.dropFirst(piece.count)
      }
      let text = String(decoding: bytes, as: UTF8.self)
      #expect(
        pieces.events.filter { $0 != .continued } == whole.events.filter { $0 != .continued },
        "\(text.debugDescription)")
    }
  }
}
