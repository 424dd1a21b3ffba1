/// Gathers the body of one request.
struct BodyDecoder {
  private var framing: Framing
  private var body: [UInt8] = []

  /// Bytes that what was gathered takes: up to twice as many as came.
  var heldBytes: Int { body.capacity }

  private enum Framing {
    case length(remaining: Int)
    case chunked(ChunkedDecoder)
  }

  /// - Parameter maximumLength: what the route takes.
  /// - Throws: 413 if the head already announces more.
  init(framing: BodyFraming, maximumLength: Int, limits: HTTPLimits) throws(Problem) {
    switch framing {
    case .none:
      self.framing = .length(remaining: 0)
    case .length(let length):
      guard length <= maximumLength else { throw .payloadTooLarge(maximum: maximumLength) }
      self.framing = .length(remaining: length)
      // What is announced is not believed beyond what arrives soon: the memory is the server's.
      body.reserveCapacity(min(length, 65_536))
    case .chunked:
      self.framing = .chunked(ChunkedDecoder(maximumLength: maximumLength, limits: limits))
    }
  }

  /// Takes what belongs to the body off `input` from `position` on, and returns the body once it is whole.
  mutating func decode(_ input: Span<UInt8>, from position: inout Int) throws(Problem) -> [UInt8]? {
    switch framing {
    case .length(let remaining):
      let count = min(remaining, input.count - position)
      body.append(copying: input.extracting(position..<(position + count)))
      position += count
      framing = .length(remaining: remaining - count)
      return count == remaining ? body : nil
    case .chunked(var decoder):
      // After an error nobody asks again, so it need not be put back then.
      let isComplete = try decoder.decode(input, from: &position, into: &body)
      framing = .chunked(decoder)
      return isComplete ? body : nil
    }
  }
}
