import Foundation

/// Finds the ends of lines in bytes that arrive in pieces.
///
/// Only CR LF ends a line. If the server accepted a bare LF and the proxy in front of it did not, the server would see two
/// requests where the proxy saw one.
struct LineReader {
  /// The length of the incomplete line that was searched, so that a client that sends single bytes does not cause a
  /// search of the whole line for each.
  private var searched = 0

  /// A line, or the part of it that has arrived.
  struct Line {
    /// The length without CR LF. A CR at the end of an incomplete line is not counted; otherwise a line of exactly the
    /// allowed length would be refused when it arrives in two pieces.
    let length: Int
    fileprivate let end: End

    fileprivate enum End { case none, bareLineFeed, carriageReturnLineFeed }

    /// Whether the end of the line has arrived. Check the length first: the end of an overlong line may never come.
    ///
    /// - Throws: 400 if the line ends with a bare LF. The grammar of the line refuses a CR elsewhere.
    func isComplete() throws(Problem) -> Bool {
      guard end != .bareLineFeed else { throw .invalidRequest("A line must end with CR LF.") }
      return end != .none
    }
  }

  /// The line at `position`.
  mutating func line(in input: Span<UInt8>, at position: Int) -> Line {
    let lineFeed = input.firstIndex(of: ASCII.lineFeed, from: position + searched)
    let stop = lineFeed ?? input.count
    searched = lineFeed == nil ? input.count - position : 0
    let hasReturn = stop > position && input[stop - 1] == ASCII.carriageReturn
    return Line(
      length: stop - position - (hasReturn ? 1 : 0),
      end: lineFeed == nil ? .none : hasReturn ? .carriageReturnLineFeed : .bareLineFeed)
  }
}

extension Span<UInt8> {
  /// The index of the first `byte` at or after `start`.
  func firstIndex(of byte: UInt8, from start: Int) -> Int? {
    withUnsafeBufferPointer { bytes in
      guard let base = bytes.baseAddress, start < bytes.count,
        let found = memchr(base + start, Int32(byte), bytes.count - start)
      else { return nil }
      return UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }
  }
}
