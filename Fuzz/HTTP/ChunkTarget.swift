import FuzzSupport
import HTTPTypes

@testable import HTTP

/// The chunked coding, beside a second reading of it that looks at the whole at once.
enum ChunkTarget {
  private static let maximumLength = 600

  private enum Outcome: Equatable {
    /// A body, and how many bytes it took.
    case body([UInt8], Int)
    case refused(Int)
    case unfinished
  }

  @Sendable static func check(_ bytes: [UInt8]) {
    let whole = decode([bytes])
    for pieces in [Pieces.some(of: bytes), Pieces.single(bytes)] {
      claim(decode(pieces) == whole, "the pieces in which chunks arrive do not change what is understood")
    }
    switch (whole, read(bytes)) {
    case (.body(let body, let end), let read):
      claim(read?.body == body && read?.end == end, "both readings find the same body and end")
      claim(body.count <= maximumLength, "a body as long as the limit")
      claim(decode([encode(body)]) == .body(body, encode(body).count), "a body encoded anew is the same")
    case (_, let read?):
      claim(read.hasTrailers || read.body.count > maximumLength, "a body without trailers is understood")
    case (_, nil): break
    }
  }

  private static func decode(_ pieces: [[UInt8]]) -> Outcome {
    var decoder = ChunkedDecoder(maximumLength: maximumLength, limits: Transcript.limits)
    var (body, input): ([UInt8], [UInt8]) = ([], [])
    var position = 0
    for piece in pieces {
      input += piece
      do {
        if try decoder.decode(input.span, from: &position, into: &body) { return .body(body, position) }
      } catch {
        return .refused(error.status.code)
      }
    }
    return .unfinished
  }

  private static func encode(_ body: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    for start in stride(from: 0, to: body.count, by: 7) {
      let chunk = body[start..<min(start + 7, body.count)]
      bytes += Array("\(chunk.count)\r\n".utf8) + chunk + Array("\r\n".utf8)
    }
    return bytes + Array("0\r\n\r\n".utf8)
  }

  /// RFC 9112 §7.1 without extensions, trailers not looked into; nil if that is not what it is.
  private static func read(_ bytes: [UInt8]) -> (body: [UInt8], end: Int, hasTrailers: Bool)? {
    var rest = bytes[...]
    func line() -> [UInt8]? {
      guard let end = rest.firstIndex(of: 0x0A), end > rest.startIndex, rest[end - 1] == 0x0D else {
        return nil
      }
      defer { rest = rest[(end + 1)...] }
      return Array(rest[..<(end - 1)])
    }
    var body: [UInt8] = []
    while let size = line(), (1...16).contains(size.count), size.allSatisfy(isHexadecimal),
      let count = Int(String(decoding: size, as: UTF8.self), radix: 16)
    {
      guard count > 0 else {
        var hasTrailers = false
        while let trailer = line() {
          if trailer.isEmpty { return (body, rest.startIndex, hasTrailers) }
          hasTrailers = true
        }
        return nil
      }
      guard rest.count >= count else { return nil }
      body += rest.prefix(count)
      rest = rest.dropFirst(count)
      guard line() == [] else { return nil }
    }
    return nil
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    Character(Unicode.Scalar(byte)).isHexDigit && byte < 0x80
  }
}
