/// Collects the body of one request.
struct BodyDecoder {
  private var framing: Framing
  private var body: [UInt8] = []

  /// The memory of the body so far: up to twice its length.
  var bufferedBytes: Int { body.capacity }

  private enum Framing {
    case length(remaining: Int)
    case chunked(ChunkedDecoder)
  }

  /// - Parameter maximumLength: the route's limit.
  /// - Throws: 413 if `Content-Length` exceeds the limit.
  init(framing: BodyFraming, maximumLength: Int, limits: HTTPLimits) throws(Problem) {
    switch framing {
    case .none:
      self.framing = .length(remaining: 0)
    case .length(let length):
      guard length <= maximumLength else { throw .payloadTooLarge(maximum: maximumLength) }
      self.framing = .length(remaining: length)
      // A client could announce large bodies and never send them, so not all of the memory is reserved.
      body.reserveCapacity(min(length, 65_536))
    case .chunked:
      self.framing = .chunked(ChunkedDecoder(maximumLength: maximumLength, limits: limits))
    }
  }

  /// Decodes `input` from `position` on, and moves `position` to the end of the body's bytes.
  ///
  /// - Returns: the body once it is complete.
  mutating func decode(_ input: Span<UInt8>, from position: inout Int) throws(Problem) -> [UInt8]? {
    switch framing {
    case .length(let remaining):
      let count = min(remaining, input.count - position)
      body.append(copying: input.extracting(position..<(position + count)))
      position += count
      framing = .length(remaining: remaining - count)
      return count == remaining ? body : nil
    case .chunked(var decoder):
      // An error ends the connection, so the decoder is not stored then.
      let isComplete = try decoder.decode(input, from: &position, into: &body)
      framing = .chunked(decoder)
      return isComplete ? body : nil
    }
  }
}
