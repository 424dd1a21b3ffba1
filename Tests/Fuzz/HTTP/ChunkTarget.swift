import FuzzSupport
import HTTPTypes

@testable import HTTP

/// Compares the chunked decoder with a second one that reads the whole body at once.
enum ChunkTarget {
  private static let maximumLength = 600

  private enum Outcome: Equatable {
    /// A decoded body, and the length of its encoding.
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
      claim(
        read.hasTrailers || read.body.count > maximumLength
          || read.extensionLength > Transcript.limits.head, "a body without trailers is understood")
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

  /// The result of the second decoder.
  private struct Reading {
    var body: [UInt8] = []
    var end = 0
    var hasTrailers = false
    var extensionLength = 0
  }

  /// Decodes RFC 9112 §7.1 without validating trailers; nil for malformed bytes.
  private static func read(_ bytes: [UInt8]) -> Reading? {
    var rest = bytes[...]
    var reading = Reading()
    func readLine() -> [UInt8]? {
      guard let end = rest.firstIndex(of: 0x0A), end > rest.startIndex, rest[end - 1] == 0x0D else {
        return nil
      }
      defer { rest = rest[(end + 1)...] }
      return Array(rest[..<(end - 1)])
    }
    while let line = readLine() {
      let size = line.prefix(while: isHexadecimal)
      let extensions = line.dropFirst(size.count)
      // Each byte beyond ASCII becomes one character of Latin-1.
      let text = String(String.UnicodeScalarView(extensions.map { Unicode.Scalar($0) }))
      guard (1...16).contains(size.count), text.unicodeScalars.isEmpty || isExtension(text),
        let count = Int(String(decoding: size, as: UTF8.self), radix: 16)
      else { return nil }
      reading.extensionLength += extensions.count
      guard count > 0 else {
        while let trailer = readLine() {
          reading.end = rest.startIndex
          if trailer.isEmpty { return reading }
          reading.hasTrailers = true
        }
        return nil
      }
      guard rest.count >= count else { return nil }
      reading.body += rest.prefix(count)
      rest = rest.dropFirst(count)
      guard readLine() == [] else { return nil }
    }
    return nil
  }

  /// RFC 9112 §7.1.1 as a regular expression over Latin-1. Read by the one thread of libFuzzer; `Regex` is not
  /// `Sendable`.
  nonisolated(unsafe) private static let extensions: Regex<AnyRegexOutput>? = {
    let token = #"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"#
    let quoted = #""(?:[\t \x21\x23-\x5B\x5D-\x7E\x80-\xFF]|\\[\t \x21-\x7E\x80-\xFF])*""#
    let value = "(?:[ \\t]*=[ \\t]*(?:\(token)|\(quoted)))?"
    return try? Regex("(?:[ \\t]*;[ \\t]*\(token)\(value))*").matchingSemantics(.unicodeScalar)
  }()

  private static func isExtension(_ text: String) -> Bool {
    guard let extensions else { return false }
    return (try? extensions.wholeMatch(in: text)) != nil
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    Character(Unicode.Scalar(byte)).isHexDigit && byte < 0x80
  }
}
